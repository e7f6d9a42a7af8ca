// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/export_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "emlio/base/nanoseconds.h"
#include "emlio/energy_sinks/domain_series.h"
#include "emlio/energy_sinks/line_protocol.h"

namespace emlio::energy_sinks {
namespace {

using energy::StoredNode;
using energy::WindowRecord;

constexpr size_t kPieceBytes = 1 << 20;

// Text on its way to an output, in pieces.
class Pieces {
 public:
  explicit Pieces(const std::function<Status(std::string_view)>& output) : output_(output) {}
  std::string& text() { return text_; }
  int64_t rows = 0;

  Status RowsEnd(size_t count = 1) {
    rows += static_cast<int64_t>(count);
    return text_.size() < kPieceBytes ? OkStatus() : Flush();
  }
  Status Flush() {
    const Status written = text_.empty() ? OkStatus() : output_(text_);
    text_.clear();
    return written;
  }

 private:
  const std::function<Status(std::string_view)>& output_;
  std::string text_;
};

std::string Cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char byte : text) {
    if (byte == '"') out += '"';
    out += byte;
  }
  return out + '"';
}

// It says something beside joules only.
struct Uncertainty {
  const std::optional<double>& joules;
  double value;
};

// A row of cells; what is not known is an empty one.
class CsvRow {
 public:
  explicit CsvRow(std::string* text) : text_(text) {}
  ~CsvRow() { *text_ += '\n'; }
  CsvRow(const CsvRow&) = delete;
  CsvRow& operator=(const CsvRow&) = delete;

  CsvRow& operator<<(std::string_view text) {
    Next();
    *text_ += Cell(text);
    return *this;
  }
  CsvRow& operator<<(const std::string& text) { return *this << std::string_view(text); }
  CsvRow& operator<<(const char* text) { return *this << std::string_view(text); }
  CsvRow& operator<<(bool value) { return *this << (value ? "true" : "false"); }
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  CsvRow& operator<<(Number value) {
    Next();
    fmt::format_to(std::back_inserter(*text_), "{}", value);
    return *this;
  }
  CsvRow& operator<<(const Uncertainty& uncertainty) {
    if (uncertainty.joules) return *this << uncertainty.value;
    Next();
    return *this;
  }
  template <typename Value>
  CsvRow& operator<<(const std::optional<Value>& value) {
    if (value) return *this << *value;
    Next();
    return *this;
  }

 private:
  void Next() {
    if (!first_) *text_ += ',';
    first_ = false;
  }
  std::string* text_;
  bool first_ = true;
};

std::string Joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, " "));
}

std::string LabelsText(const std::map<std::string, std::string>& labels) {
  return nlohmann::json(labels).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Calls `use` for every tick of every node.
Status ForEachTickOf(energy::RunReader& reader, const StoredNode& node,
                     const std::function<Status(const energy::Tick&)>& use) {
  return reader.ForEachTick(node.id, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max(), use);
}

Status SamplesToCsv(energy::RunReader& reader, const std::string& run_id,
                    const std::vector<StoredNode>& nodes, Pieces* out) {
  out->text() =
      "run,node,domain,kind,source,device,in_total,wall_ns,monotonic_ns,state,energy_uj,delta_j,"
      "void_ns,wraps,resets,gaps,stalls,ambiguous\n";
  for (const StoredNode& node : nodes) {
    const std::vector<energy::Domain>& domains = node.info.domains;
    std::vector<DomainSeries> series(domains.size());
    std::vector<std::string> begins;  // the same in every row of a domain
    for (const energy::Domain& domain : domains) {
      begins.push_back(fmt::format("{},{},{},{},{},{},{}", Cell(run_id), Cell(node.info.name),
                                   Cell(domain.id), energy::KindName(domain.kind),
                                   Cell(domain.source), Cell(domain.device), domain.in_total));
    }
    const Status walked = ForEachTickOf(reader, node, [&](const energy::Tick& tick) {
      for (size_t i = 0; i < domains.size(); ++i) {
        const energy::Sample& sample = tick.samples[i];
        const Published published = series[i].Next(domains[i], sample);
        auto to = std::back_inserter(out->text());
        fmt::format_to(to, "{},{},{},{},", begins[i], tick.wall_ns, sample.time_ns,
                       published.state);
        if (published.energy_uj) fmt::format_to(to, "{}", *published.energy_uj);
        out->text() += ',';
        if (published.delta_j) fmt::format_to(to, "{:.6f}", *published.delta_j);
        if (domains[i].cause.empty()) {
          fmt::format_to(to, ",{},{},{},{},{},{}\n", sample.void_ns, sample.wraps, sample.resets,
                         sample.gaps, sample.stalls, sample.ambiguous);
        } else {
          out->text() += ",,,,,,\n";
        }
      }
      return out->RowsEnd(domains.size());
    });
    EMLIO_RETURN_IF_ERROR(walked);
  }
  return OkStatus();
}

Status SamplesToInflux(energy::RunReader& reader, const std::string& run_id,
                       const std::vector<StoredNode>& nodes, Pieces* out) {
  for (const StoredNode& node : nodes) {
    LineWriter writer(run_id, node.info.name, node.info.domains);
    const Status walked = ForEachTickOf(reader, node, [&](const energy::Tick& tick) {
      writer.Write(tick.wall_ns, tick.samples, &out->text());
      return out->RowsEnd(tick.samples.size());
    });
    EMLIO_RETURN_IF_ERROR(walked);
  }
  return OkStatus();
}

const StoredNode* NodeOf(const std::vector<StoredNode>& nodes, int64_t id) {
  for (const StoredNode& node : nodes) {
    if (node.id == id) return &node;
  }
  return nullptr;
}

Status WindowsToCsv(energy::RunReader& reader, const std::string& run_id,
                    const std::vector<StoredNode>& nodes, bool by_domain, Pieces* out) {
  out->text() = by_domain
                    ? "run,node,window,name,stage,epoch,rank,domain,kind,in_total,begin_ns,end_ns,"
                      "begin_wall_ns,state,joules,uncertainty_j,void_ns,wraps,resets,gaps,stalls,"
                      "ambiguous,cause,fix\n"
                    : "run,node,window,name,stage,epoch,rank,begin_ns,end_ns,begin_wall_ns,seconds,"
                      "state,joules,uncertainty_j,domains,missing,without,cpu_seconds,gpu_seconds,"
                      "bytes_read,bytes_sent,bytes_delivered,records_delivered,labels\n";
  return reader.ForEachWindow(run_id, [&](int64_t id, const WindowRecord& w) -> Status {
    const StoredNode* const node = NodeOf(nodes, id);
    if (node == nullptr) return OkStatus();  // it came meanwhile
    if (!by_domain) {
      const energy::Proxies& p = w.proxies;
      CsvRow(&out->text()) << run_id << node->info.name << w.id << w.name << w.stage << w.epoch
                           << w.rank << w.begin_ns << w.end_ns << w.begin_wall_ns
                           << Seconds(w.end_ns - w.begin_ns) << energy::StateName(w.total.state)
                           << w.total.joules
                           << Uncertainty{w.total.joules, w.total.uncertainty_joules}
                           << Joined(w.total.domains) << Joined(w.total.missing)
                           << Joined(w.total.without) << p.cpu_seconds << p.gpu_seconds
                           << p.bytes_read << p.bytes_sent << p.bytes_delivered
                           << p.records_delivered << LabelsText(w.labels);
      return out->RowsEnd();
    }
    for (size_t i = 0; i < w.energies.size() && i < node->info.domains.size(); ++i) {
      const energy::Domain& domain = node->info.domains[i];
      const energy::Energy& e = w.energies[i];
      CsvRow(&out->text()) << run_id << node->info.name << w.id << w.name << w.stage << w.epoch
                           << w.rank << domain.id << energy::KindName(domain.kind)
                           << domain.in_total << w.begin_ns << w.end_ns << w.begin_wall_ns
                           << energy::StateName(e.state) << e.joules
                           << Uncertainty{e.joules, e.uncertainty_joules} << e.void_ns << e.wraps
                           << e.resets << e.gaps << e.stalls << e.ambiguous << e.cause << e.fix;
      EMLIO_RETURN_IF_ERROR(out->RowsEnd());
    }
    return OkStatus();
  });
}

template <typename Value>
Result<Value> Parse(std::string_view what, std::string_view name,
                    std::initializer_list<std::pair<std::string_view, Value>> known) {
  std::string names;
  for (const auto& [known_name, value] : known) {
    if (known_name == name) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known_name);
  }
  return InvalidArgument(fmt::format("'{}' is no {}: {}", name, what, names));
}

}  // namespace

Result<ExportTable> ParseExportTable(std::string_view name) {
  return Parse<ExportTable>("table", name,
                            {{"samples", ExportTable::kSamples},
                             {"windows", ExportTable::kWindows},
                             {"energies", ExportTable::kEnergies}});
}

Result<ExportFormat> ParseExportFormat(std::string_view name) {
  if (name == "parquet") {
    return Unsupported(
        "Parquet is written by the Python package: pip install pyarrow, and then python -m "
        "emlio.energy_parquet STORE FILE");
  }
  return Parse<ExportFormat>("format", name,
                             {{"csv", ExportFormat::kCsv}, {"influx", ExportFormat::kInflux}});
}

Result<int64_t> ExportRun(energy::RunReader& reader, const std::string& run_id, ExportTable table,
                          ExportFormat format,
                          const std::function<Status(std::string_view)>& output) {
  EMLIO_ASSIGN_OR_RETURN(const std::vector<StoredNode> nodes, reader.Nodes(run_id));
  Pieces pieces(output);
  if (format == ExportFormat::kInflux) {
    if (table != ExportTable::kSamples) {
      return InvalidArgument("line protocol is written of the table samples only");
    }
    EMLIO_RETURN_IF_ERROR(SamplesToInflux(reader, run_id, nodes, &pieces));
  } else if (table == ExportTable::kSamples) {
    EMLIO_RETURN_IF_ERROR(SamplesToCsv(reader, run_id, nodes, &pieces));
  } else {
    EMLIO_RETURN_IF_ERROR(
        WindowsToCsv(reader, run_id, nodes, table == ExportTable::kEnergies, &pieces));
  }
  EMLIO_RETURN_IF_ERROR(pieces.Flush());
  return pieces.rows;
}

}  // namespace emlio::energy_sinks
