// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/energy_analysis/document.h"
#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

// Plots are drawn on so many units and scaled to the page. Letters are larger where it is narrow,
// so there is room for those.
constexpr double kWidth = 720;
constexpr double kLeft = 92;
constexpr double kRight = 20;
constexpr double kTop = 12;
constexpr double kPlotHeight = 260;
constexpr double kLane = 26;  // for a line of names above a plot
constexpr size_t kMaxLanes = 3;
constexpr size_t kLongCell = 24;
constexpr double kLetter = 12.5;  // the widest that a letter may be

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
th,td{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top;border-bottom:1px solid var(--line);overflow-wrap:break-word}
th{color:var(--dim);font-weight:600}.r{text-align:right;white-space:nowrap}td{max-width:36rem}td.t{min-width:16rem}
svg{width:100%;height:auto;display:block;margin:.5rem 0}svg text{fill:var(--dim);font:12px system-ui,sans-serif}
.axis{stroke:var(--line)}.zero{stroke:var(--dim)}.hatch{stroke:var(--dim);stroke-width:2}
.shade{fill:var(--fg);fill-opacity:.1;stroke:var(--fg);stroke-opacity:.35;stroke-width:.7}
.err{stroke:var(--fg);stroke-width:2}.key{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.3rem 0;
padding:0;color:var(--dim)}.key i{display:inline-block;width:.8rem;height:.8rem;margin-right:.4rem;vertical-align:-1px}
.na{color:var(--warn)}@media(max-width:48rem){body{padding:1rem .8rem 3rem}svg text{font-size:22px}}
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

// What times of that length are told in.
std::pair<std::string_view, double> TimeUnit(double seconds) {
  if (seconds >= 2 * 3600) return {"h", 3600};
  if (seconds >= 600) return {"min", 60};
  return {"s", 1};
}

size_t LaneOf(const std::vector<std::string>& kinds, const Span& span) {
  return static_cast<size_t>(std::find(kinds.begin(), kinds.end(), span.name) - kinds.begin());
}

// Calls `use(from, to)` for each stretch of parts that are all `value`.
template <typename Use>
void ForEachStretch(const std::vector<bool>& parts, bool value, const Use& use) {
  for (size_t from = 0; from < parts.size();) {
    size_t to = from;
    while (to < parts.size() && parts[to] == parts[from]) ++to;
    if (parts[from] == value) use(from, to);
    from = to;
  }
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
        Add("<td{}>{}</td>", Class(right, row[i]), Escape(row[i]));
      }
      Add("</tr>\n");
    }
    Add("</tbody></table></div>\n");
  }

  void Plot(const PowerPlot& plot) {
    const size_t parts = plot.series.empty() ? 0 : plot.series.front().watts.size();
    // Above the plot, a line for the names of each kind of window.
    std::vector<std::string> kinds;
    for (const Span& span : plot.spans) {
      if (kinds.size() < kMaxLanes && LaneOf(kinds, span) == kinds.size()) {
        kinds.push_back(span.name);
      }
    }
    const double top = kTop + kLane * static_cast<double>(kinds.size());
    const double bottom = top + kPlotHeight;
    const double plot_width = kWidth - kLeft - kRight;
    std::vector<double> below(parts, 0);
    // What is not known of one series is not known of the sum.
    std::vector<bool> known(parts, true);
    double most = 0;
    for (size_t i = 0; i < parts; ++i) {
      double sum = 0;
      for (const auto& series : plot.series) {
        if (!series.watts[i]) known[i] = false;
        sum += series.watts[i].value_or(0);
      }
      if (known[i]) most = std::max(most, sum * 1.05);
    }
    if (!(most > 0)) most = 1;
    const auto x = [&](double seconds) {
      const double share = plot.seconds > 0 ? seconds / plot.seconds : 0;
      return kLeft + plot_width * std::clamp(share, 0.0, 1.0);
    };
    const auto x_part = [&](size_t part) {
      return kLeft + plot_width * static_cast<double>(part) / static_cast<double>(parts);
    };
    const auto y = [&](double watts) { return bottom - kPlotHeight * watts / most; };
    Begin(bottom + 30, "Power over time");
    Add("<defs><pattern id=\"unknown\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><line class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" "
        "y2=\"8\"/></pattern></defs>\n");
    for (const double tick : Ticks(0, most)) {
      Line("axis", kLeft, y(tick), kWidth - kRight, y(tick));
      Text(kLeft - 8, y(tick) + 5, "end", WithUnit(tick, "W"));
    }
    const auto [unit, unit_seconds] = TimeUnit(plot.seconds);
    for (const double tick : Ticks(0, plot.seconds / unit_seconds)) {
      Line("zero", x(tick * unit_seconds), bottom, x(tick * unit_seconds), bottom + 5);
      Text(x(tick * unit_seconds), bottom + 24, "middle", fmt::format("{:g} {}", tick, unit));
    }
    for (size_t s = 0; s < plot.series.size(); ++s) {
      const auto& series = plot.series[s];
      Add("<path fill=\"{}\" d=\"", Color(s));
      ForEachStretch(known, true, [&](size_t from, size_t to) {
        char letter = 'M';
        for (size_t i = from; i < to; ++i) {
          const double level = y(below[i] + *series.watts[i]);
          Add("{}{:.1f} {:.1f}L{:.1f} {:.1f}", letter, x_part(i), level, x_part(i + 1), level);
          letter = 'L';
        }
        for (size_t i = to; i-- > from;) {
          Add("L{:.1f} {:.1f}L{:.1f} {:.1f}", x_part(i + 1), y(below[i]), x_part(i), y(below[i]));
          below[i] += *series.watts[i];
        }
        Add("Z");
      });
      Add("\"><title>{}</title></path>\n", Escape(series.name));
    }
    ForEachStretch(known, false, [&](size_t from, size_t to) {
      Add("<rect fill=\"url(#unknown)\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\"><title>not known</title></rect>\n",
          x_part(from), top, x_part(to) - x_part(from), kPlotHeight);
    });
    std::vector<double> labelled_to(kinds.size(), 0);
    for (const Span& span : plot.spans) {
      const double from = x(span.begin_seconds);
      const double to = std::max(x(span.end_seconds), from + 1);
      const std::string number = span.epoch ? std::to_string(*span.epoch) : "";
      const std::string name = span.epoch ? fmt::format("{} {}", span.name, number) : span.name;
      Add("<rect class=\"shade\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
          "<title>{}: {:.3f} s to {:.3f} s</title></rect>\n",
          from, top, to - from, kPlotHeight, Escape(name), span.begin_seconds, span.end_seconds);
      const size_t lane = LaneOf(kinds, span);
      if (lane >= kinds.size()) continue;
      // Names that would lie upon each other are in the titles only.
      for (const std::string& text : {name, number}) {
        const double width = kLetter * static_cast<double>(text.size());
        if (text.empty() || from < labelled_to[lane] || width > to - from) continue;
        Text(from + 2, kTop + kLane * (static_cast<double>(lane) + 1) - 8, "start", text);
        labelled_to[lane] = from + width;
        break;
      }
    }
    Line("zero", kLeft, bottom, kWidth - kRight, bottom);
    Add("</svg>\n<ul class=\"key\">");
    for (size_t s = 0; s < plot.series.size(); ++s) {
      Add("<li><i style=\"background:{}\"></i>{}</li>", Color(s), Escape(plot.series[s].name));
    }
    Add("</ul>\n");
  }

  void Plot(const BarPlot& plot) {
    constexpr double kRow = 34;
    constexpr double kNames = 150;
    constexpr double kValues = 200;
    const double height = kTop + kRow * static_cast<double>(plot.bars.size()) + 36;
    double low = 0;
    double high = 0;
    for (const auto& bar : plot.bars) {
      low = std::min({low, bar.value, bar.interval ? bar.interval->low : 0.0});
      high = std::max({high, bar.value, bar.interval ? bar.interval->high : 0.0});
    }
    if (!(high > low)) high = low + 1;
    const auto x = [&](double value) {
      return kNames + (kWidth - kNames - kValues) * (value - low) / (high - low);
    };
    Begin(height, "Energy of each stage");
    for (const double tick : Ticks(low, high)) {
      Line("axis", x(tick), kTop - 6, x(tick), height - 30);
      Text(x(tick), height - 8, "middle", WithUnit(tick, plot.unit));
    }
    Line("zero", x(0), kTop - 6, x(0), height - 30);
    for (size_t i = 0; i < plot.bars.size(); ++i) {
      const auto& bar = plot.bars[i];
      const double top = kTop + kRow * static_cast<double>(i);
      const double middle = top + 12;
      Text(kNames - 10, middle + 5, "end", bar.name);
      Add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" fill=\"{}\"/>\n",
          x(std::min(bar.value, 0.0)), top + 2, std::abs(x(bar.value) - x(0)), Color(i));
      double end = x(std::max(bar.value, 0.0));
      std::string text = WithUnit(bar.value, plot.unit);
      if (bar.interval) {
        Line("err", x(bar.interval->low), middle, x(bar.interval->high), middle);
        for (const double limit : {bar.interval->low, bar.interval->high}) {
          Line("err", x(limit), middle - 6, x(limit), middle + 6);
        }
        end = std::max(end, x(bar.interval->high));
        text = WithSpread(bar.value, (bar.interval->high - bar.interval->low) / 2, plot.unit);
      }
      Text(end + 8, middle + 5, "start", text);
    }
    Add("</svg>\n");
  }

  std::string Take() { return std::move(text_); }

 private:
  // Of a cell: numbers to the right, long text in lines that can be read.
  static std::string_view Class(bool right, std::string_view cell) {
    if (cell == "n/a") return right ? " class=\"r na\"" : " class=\"na\"";
    if (right) return " class=\"r\"";
    return cell.size() > kLongCell ? " class=\"t\"" : "";
  }
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
