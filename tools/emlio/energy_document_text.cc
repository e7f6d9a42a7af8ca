// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_document_text.h"

#include <fmt/format.h>

#include <utility>
#include <variant>
#include <vector>

#include "text.h"

namespace emlio::tool {
namespace {

using namespace energy_analysis;

std::string TableText(const DocumentTable& table, size_t columns) {
  std::vector<Table::Column> titles;
  for (const auto& column : table.columns) {
    titles.push_back({.title = column.title, .right = column.right});
  }
  Table text(std::move(titles));
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(Printable(cell));
    text.AddRow(std::move(cells));
  }
  return text.Render(columns);
}

}  // namespace

std::string DocumentText(const Document& document, size_t columns) {
  std::string text = fmt::format("{}\n", Printable(document.title));
  for (const Section& section : document.sections) {
    text += fmt::format("\n{}\n", Printable(section.title));
    for (const Block& block : section.blocks) {
      if (const auto* paragraph = std::get_if<Paragraph>(&block)) {
        text += WrapWords((paragraph->warning ? "! " : "") + paragraph->text, 2, columns);
      } else if (const auto* table = std::get_if<DocumentTable>(&block)) {
        text += TableText(*table, columns);
      } else {
        text += "  (a plot: --html FILE)\n";
      }
    }
  }
  return text;
}

}  // namespace emlio::tool
