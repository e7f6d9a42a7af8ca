// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/energy_analysis/document.h"
#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 64;
constexpr double kRight = 12;
constexpr double kTop = 24;

constexpr std::string_view kStyle = R"(
:root{--bg:#fff;--fg:#1b1f24;--dim:#5a6472;--line:#d8dde3;--shade:#7d8ea6;--warn:#9a3412;--warnbg:#fff3e8;
--c0:#3b6fd4;--c1:#d99a0b;--c2:#d1495b;--c3:#2a9d8f;--c4:#8e5bbf;--c5:#6b7280}
@media (prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e6e9ed;--dim:#9aa5b1;--line:#333b44;--shade:#8194ad;
--warn:#ffb380;--warnbg:#35210f;--c0:#6f9bf0;--c1:#efb73c;--c2:#ef7f8d;--c3:#53c2b4;--c4:#b58be0;--c5:#9aa5b1}}
*{box-sizing:border-box}body{margin:0 auto;max-width:62rem;padding:1.5rem 1rem 4rem;background:var(--bg);
color:var(--fg);font:15px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:.2rem 0 1rem}
h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
p{margin:.5rem 0;overflow-wrap:anywhere}.headline{font-size:1.1rem;font-weight:600}
.warn{background:var(--warnbg);color:var(--warn);padding:.4rem .6rem;border-radius:4px}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:600}.r{text-align:right;white-space:nowrap}td{max-width:36rem;overflow-wrap:anywhere}
svg{width:100%;height:auto;display:block;margin:.5rem 0}svg text{fill:var(--dim);font:12px system-ui,sans-serif}
.axis{stroke:var(--line)}.zero{stroke:var(--dim)}.shade{fill:var(--shade);opacity:.16}.err{stroke:var(--fg);stroke-width:1.5}
)";

std::string Escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters have no place in a page.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string Color(size_t i) { return fmt::format("var(--c{})", i % 6); }

// Round numbers that span the values: at most seven.
std::vector<double> Ticks(double low, double high) {
  const double range = high - low;
  if (!(range > 0)) return {low};
  const double rough = range / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = power * factor;
    if (step >= rough) break;
  }
  std::vector<double> ticks;
  for (double tick = std::ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) {
    ticks.push_back(tick);
  }
  return ticks;
}

class Writer {
 public:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void Table(const DocumentTable& table) {
    Add("<div class=\"wide\"><table><thead><tr>");
    for (const auto& column : table.columns) {
      Add("<th{}>{}</th>", column.right ? " class=\"r\"" : "", Escape(column.title));
    }
    Add("</tr></thead><tbody>\n");
    for (const auto& row : table.rows) {
      Add("<tr>");
      for (size_t i = 0; i < row.size(); ++i) {
        const bool right = i < table.columns.size() && table.columns[i].right;
        Add("<td{}>{}</td>", right ? " class=\"r\"" : "", Escape(row[i]));
      }
      Add("</tr>\n");
    }
    Add("</tbody></table></div>\n");
  }

  void Plot(const PowerPlot& plot) {
    constexpr double kHeight = 320;
    constexpr double kBottom = 36;
    const double plot_width = kWidth - kLeft - kRight;
    const double plot_height = kHeight - kTop - kBottom;
    const size_t parts = plot.series.empty() ? 0 : plot.series.front().watts.size();
    std::vector<double> below(parts, 0);
    std::vector<double> top(parts, 0);
    double most = 1;
    for (const auto& series : plot.series) {
      for (size_t i = 0; i < parts; ++i) top[i] += series.watts[i];
    }
    for (const double watts : top) most = std::max(most, watts * 1.05);
    const auto x = [&](double seconds) {
      const double share = plot.seconds > 0 ? seconds / plot.seconds : 0;
      return kLeft + plot_width * std::clamp(share, 0.0, 1.0);
    };
    const auto y = [&](double watts) { return kTop + plot_height * (1 - watts / most); };
    Begin(kHeight, "Power over time");
    for (const double tick : Ticks(0, most)) {
      Line("axis", kLeft, y(tick), kWidth - kRight, y(tick));
      Text(kLeft - 6, y(tick) + 4, "end", WithUnit(tick, "W"));
    }
    for (const double tick : Ticks(0, plot.seconds)) {
      Text(x(tick), kHeight - kBottom + 18, "middle", fmt::format("{:g} s", tick));
    }
    double label_end = 0;
    for (const Span& span : plot.spans) {
      const double from = x(span.begin_seconds);
      const double to = std::max(x(span.end_seconds), from + 1);
      Add("<rect class=\"shade\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\">"
          "<title>{}: {:.3f} s to {:.3f} s</title></rect>\n",
          from, kTop, to - from, plot_height, Escape(span.name), span.begin_seconds,
          span.end_seconds);
      // Names that would lie upon each other are in the titles only.
      const double width = 7 * static_cast<double>(span.name.size());
      if (from >= label_end && width < to - from) {
        Text(from + 3, kTop - 8, "start", span.name);
        label_end = from + width + 6;
      }
    }
    for (size_t s = 0; s < plot.series.size(); ++s) {
      const auto& series = plot.series[s];
      Add("<path fill=\"{}\" fill-opacity=\".75\" d=\"M", Color(s));
      const double part = parts > 0 ? plot.seconds / static_cast<double>(parts) : 0;
      for (size_t i = 0; i < parts; ++i) {
        const double level = y(below[i] + series.watts[i]);
        Add("{:.1f} {:.1f}L{:.1f} {:.1f}L", x(part * static_cast<double>(i)), level,
            x(part * static_cast<double>(i + 1)), level);
      }
      for (size_t i = parts; i-- > 0;) {
        Add("{:.1f} {:.1f}L{:.1f} {:.1f}{}", x(part * static_cast<double>(i + 1)), y(below[i]),
            x(part * static_cast<double>(i)), y(below[i]), i > 0 ? "L" : "");
        below[i] += series.watts[i];
      }
      Add("Z\"><title>{}</title></path>\n", Escape(series.name));
      const double at = kLeft + 110 * static_cast<double>(s);
      Add("<rect x=\"{:.0f}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>", at, kHeight - 12,
          Color(s));
      Text(at + 14, kHeight - 3, "start", series.name);
    }
    Add("</svg>\n");
  }

  void Plot(const BarPlot& plot) {
    constexpr double kRow = 30;
    const double height = kTop + kRow * static_cast<double>(plot.bars.size()) + 24;
    constexpr double kNames = 130;
    double low = 0;
    double high = 0;
    for (const auto& bar : plot.bars) {
      low = std::min({low, bar.value, bar.interval ? bar.interval->low : 0.0});
      high = std::max({high, bar.value, bar.interval ? bar.interval->high : 0.0});
    }
    if (!(high > low)) high = low + 1;
    const auto x = [&](double value) {
      return kNames + (kWidth - kNames - 130) * (value - low) / (high - low);
    };
    Begin(height, "Energy of each stage");
    for (const double tick : Ticks(low, high)) {
      Line("axis", x(tick), kTop - 6, x(tick), height - 20);
      Text(x(tick), height - 6, "middle", WithUnit(tick, plot.unit));
    }
    Line("zero", x(0), kTop - 6, x(0), height - 20);
    for (size_t i = 0; i < plot.bars.size(); ++i) {
      const auto& bar = plot.bars[i];
      const double top = kTop + kRow * static_cast<double>(i);
      Text(kNames - 8, top + 15, "end", bar.name);
      Add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"18\" fill=\"{}\"/>\n",
          x(std::min(bar.value, 0.0)), top + 2, std::abs(x(bar.value) - x(0)), Color(i));
      double end = x(std::max(bar.value, 0.0));
      std::string text = WithUnit(bar.value, plot.unit);
      if (bar.interval) {
        const double middle = top + 11;
        Line("err", x(bar.interval->low), middle, x(bar.interval->high), middle);
        for (const double limit : {bar.interval->low, bar.interval->high}) {
          Line("err", x(limit), middle - 5, x(limit), middle + 5);
        }
        end = std::max(end, x(bar.interval->high));
        text = WithSpread(bar.value, (bar.interval->high - bar.interval->low) / 2, plot.unit);
      }
      Text(end + 8, top + 15, "start", text);
    }
    Add("</svg>\n");
  }

  std::string Take() { return std::move(text_); }

 private:
  void Begin(double height, std::string_view title) {
    Add("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, height, title);
  }
  void Line(std::string_view style, double x1, double y1, double x2, double y2) {
    Add("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1,
        y1, x2, y2);
  }
  void Text(double x, double y, std::string_view anchor, std::string_view text) {
    Add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
        Escape(text));
  }

  std::string text_;
};

}  // namespace

std::string RenderHtml(const Document& document) {
  Writer writer;
  writer.Add(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\"><title>{0}</title><style>{1}</style>"
      "</head><body>\n<h1>{0}</h1>\n",
      Escape(document.title), kStyle);
  bool first = true;
  for (const Section& section : document.sections) {
    writer.Add("<section><h2>{}</h2>\n", Escape(section.title));
    for (const Block& block : section.blocks) {
      if (const auto* paragraph = std::get_if<Paragraph>(&block)) {
        writer.Add("<p class=\"{}\">{}</p>\n",
                   paragraph->warning ? "warn" : (first ? "headline" : ""),
                   Escape(paragraph->text));
      } else if (const auto* table = std::get_if<DocumentTable>(&block)) {
        writer.Table(*table);
      } else if (const auto* power = std::get_if<PowerPlot>(&block)) {
        writer.Plot(*power);
      } else if (const auto* bars = std::get_if<BarPlot>(&block)) {
        writer.Plot(*bars);
      }
      first = false;
    }
    writer.Add("</section>\n");
  }
  writer.Add("</body></html>\n");
  return writer.Take();
}

}  // namespace emlio::energy_analysis
