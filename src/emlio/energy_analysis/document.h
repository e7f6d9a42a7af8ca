// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "emlio/energy_analysis/power_trace.h"
#include "emlio/energy_analysis/report.h"

// A report as people read it: sections of text, tables and plots, before it is lines or a page.
namespace emlio::energy_analysis {

struct Paragraph {
  std::string text = {};
  bool warning = false;
};

struct DocumentTable {
  struct Column {
    std::string title = {};
    bool right = false;  // aligned; for numbers
  };
  std::vector<Column> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};

// Power over time, one series upon the other.
struct PowerPlot {
  double seconds = 0;
  struct Series {
    std::string name = {};
    std::vector<std::optional<double>> watts = {};  // of equal parts of the time; none: not known
  };
  std::vector<Series> series = {};
  std::vector<Span> spans = {};
};

// Bars with intervals.
struct BarPlot {
  std::string unit = {};
  struct Bar {
    std::string name = {};
    double value = 0;
    std::optional<Interval> interval = {};
  };
  std::vector<Bar> bars = {};
};

using Block = std::variant<Paragraph, DocumentTable, PowerPlot, BarPlot>;

struct Section {
  std::string title = {};
  std::vector<Block> blocks = {};
};

struct Document {
  std::string title = {};
  std::vector<Section> sections = {};
};

Document DocumentOf(const EnergyReport& report);

// One page without anything from elsewhere: styles inside, plots as SVG, light and dark.
std::string RenderHtml(const Document& document);

}  // namespace emlio::energy_analysis
