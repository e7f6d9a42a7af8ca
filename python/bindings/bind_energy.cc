// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "bind_energy.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/energy/clock_state.h"
#include "emlio/energy/epoch_observer.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy_agent/link.h"
#include "emlio/energy_agent/node_set.h"
#include "errors.h"
#include "gil.h"

namespace nb = nanobind;

namespace emlio::python {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }
double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

// ---------------------------------------------------------------------------------------------
// What is told to Python: dicts, of which emlio.energy makes its dataclasses.

nb::object Text(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

template <typename T>
nb::object OrNone(const std::optional<T>& value) {
  return value ? nb::cast(*value) : nb::none();
}

nb::list Texts(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(Text(text));
  return list;
}

nb::dict TotalDict(const energy::Total& total) {
  nb::dict dict;
  dict["state"] = Text(energy::StateName(total.state));
  dict["joules"] = OrNone(total.joules);
  dict["uncertainty_joules"] = total.joules ? nb::cast(total.uncertainty_joules) : nb::none();
  dict["domains"] = Texts(total.domains);
  dict["missing"] = Texts(total.missing);
  dict["without"] = Texts(total.without);
  return dict;
}

nb::dict EnergyDict(const energy::Domain& domain, const energy::Energy& energy) {
  nb::dict dict;
  dict["domain"] = Text(domain.id);
  dict["kind"] = Text(energy::KindName(domain.kind));
  dict["source"] = domain.source.empty() ? nb::none() : Text(domain.source);
  dict["in_total"] = domain.in_total;
  dict["state"] = Text(energy::StateName(energy.state));
  dict["joules"] = OrNone(energy.joules);
  dict["uncertainty_joules"] = energy.joules ? nb::cast(energy.uncertainty_joules) : nb::none();
  dict["void_s"] = Seconds(energy.void_ns);
  dict["cause"] = Text(energy.cause);
  dict["fix"] = Text(energy.fix);
  return dict;
}

nb::dict WindowDict(const std::vector<energy::Domain>& domains,
                    const energy::WindowReport& window) {
  nb::dict dict;
  dict["name"] = Text(window.label.name);
  dict["stage"] = Text(window.label.stage);
  dict["epoch"] = window.label.epoch >= 0 ? nb::cast(window.label.epoch) : nb::none();
  dict["rank"] = window.label.rank >= 0 ? nb::cast(window.label.rank) : nb::none();
  dict["records"] = window.work.records;
  dict["bytes"] = window.work.bytes;
  dict["seconds"] = Seconds(window.end_ns - window.begin_ns);
  dict["cut"] = window.cut;
  dict["total"] = TotalDict(window.total);
  nb::list energies;
  for (size_t i = 0; i < window.energies.size(); ++i) {
    energies.append(EnergyDict(domains[i], window.energies[i]));
  }
  dict["energies"] = energies;
  return dict;
}

nb::list WindowDicts(const std::vector<energy::Domain>& domains,
                     const std::vector<energy::WindowReport>& windows, energy::WindowId but) {
  nb::list list;
  for (const energy::WindowReport& window : windows) {
    if (window.id != but) list.append(WindowDict(domains, window));
  }
  return list;
}

nb::dict NodeDict(const energy_agent::NodeReport& node) {
  nb::dict dict;
  dict["name"] = Text(node.node.empty() ? node.endpoint : node.node);
  dict["endpoint"] = Text(node.endpoint);
  dict["role"] = Text(node.role);
  dict["state"] = Text(energy_agent::NodeStateName(node.state));
  dict["cause"] = Text(node.cause);
  dict["joined_late"] = node.joined_late;
  dict["clock"] = Text(energy::ClockStateName(node.clock));
  dict["clock_offset_ms"] = node.offset ? nb::cast(Ms(node.offset->offset_ns)) : nb::none();
  dict["clock_bound_ms"] = node.offset ? nb::cast(Ms(node.offset->bound_ns)) : nb::none();
  dict["synchronised"] = node.stop_clock ? nb::cast(node.stop_clock->synchronised) : nb::none();
  const bool known = node.state == energy_agent::NodeState::kWhole ||
                     (node.state == energy_agent::NodeState::kSameHost && node.stopped);
  dict["energy"] = known ? nb::object(WindowDict(node.domains, node.run)) : nb::none();
  dict["windows"] = WindowDicts(node.domains, node.windows, 0);
  return dict;
}

// ---------------------------------------------------------------------------------------------

struct RunOptions {
  energy::Host host;
  int64_t interval_ms = 100;
  std::string name;
  std::string stage;
  std::vector<std::string> nodes;
  int64_t connect_timeout_ms = 10'000;
};

// One measurement: this host, and the nodes that its data come from.
class EnergyRun {
 public:
  explicit EnergyRun(const RunOptions& options) : pid_(getpid()) {
    energy::MonitorOptions monitor_options;
    monitor_options.host = options.host;
    monitor_options.interval_ns = options.interval_ms * kNsPerMs;
    energy_agent::NodeSetOptions node_options;
    node_options.name = options.name;
    node_options.stage = options.stage;
    node_options.boot_id = energy::BootId(options.host.root);
    node_options.connect_timeout_ms = options.connect_timeout_ms;
    const auto start = [&]() -> Status {
      EMLIO_ASSIGN_OR_RETURN(monitor_, energy::Monitor::Start(std::move(monitor_options)));
      node_options.run_id = monitor_->node() + "-" + std::to_string(energy::ReadMoment().wall_ns);
      EMLIO_ASSIGN_OR_RETURN(nodes_, energy_agent::NodeSet::Start(std::move(node_options)));
      for (const std::string& node : options.nodes) nodes_->Add(node);
      nodes_->Begin();
      energy::WindowLabel label;
      label.name = options.name;
      label.stage = options.stage;
      window_ = monitor_->Open(std::move(label));
      return OkStatus();
    };
    Status status;
    {
      const GilReleased released;
      status = start();
    }
    RaiseIfError(status);
  }

  ~EnergyRun() {
    // In a child there are no threads to join.
    if (getpid() != pid_) {
      (void)nodes_.release();
      return;
    }
  }

  const std::shared_ptr<energy::Monitor>& monitor() const { return monitor_; }
  void AddNode(std::string_view endpoint) {
    if (getpid() == pid_) nodes_->Add(endpoint);
  }
  void AddUnmeasured(std::string_view endpoint, std::string_view boot_id) {
    if (getpid() == pid_) nodes_->AddUnmeasured(endpoint, boot_id);
  }

  nb::dict Report(energy::WindowId id) {
    Result<energy::WindowReport> report = [&] {
      const GilReleased released;
      return monitor_->Report(id);
    }();
    return WindowDict(monitor_->domains(), ValueOrRaise(std::move(report)));
  }

  // Everything; again: the same.
  nb::dict Stop() {
    Status status;
    {
      const GilReleased released;
      status = StopAll();
    }
    RaiseIfError(status);
    nb::dict dict;
    dict["node"] = Text(monitor_->node());
    dict["energy"] = WindowDict(monitor_->domains(), report_);
    dict["windows"] = WindowDicts(monitor_->domains(), windows_, window_);
    nb::list nodes;
    for (const energy_agent::NodeReport& node : others_) nodes.append(NodeDict(node));
    dict["nodes"] = nodes;
    const energy_agent::RunTotal total =
        energy_agent::TotalOf(monitor_->node(), &report_.total, others_);
    nb::dict sum;
    sum["complete"] = total.complete;
    sum["state"] =
        Text(total.complete ? energy::StateName(total.state) : std::string_view("incomplete"));
    sum["joules"] = OrNone(total.joules);
    sum["uncertainty_joules"] = total.joules ? nb::cast(total.uncertainty_joules) : nb::none();
    sum["nodes"] = Texts(total.nodes);
    nb::dict missing;
    for (const auto& [node, cause] : total.missing) missing[Text(node)] = Text(cause);
    sum["missing"] = missing;
    dict["total"] = sum;
    return dict;
  }

 private:
  Status StopAll() EMLIO_EXCLUDES(mu_) {
    EMLIO_RETURN_IF_ERROR(monitor_->recorder().status());  // not in a child
    const MutexLock lock(mu_);
    if (stopped_) return OkStatus();
    monitor_->Close(window_);
    others_ = nodes_->End();
    monitor_->Stop();
    EMLIO_ASSIGN_OR_RETURN(report_, monitor_->Report(window_));
    EMLIO_ASSIGN_OR_RETURN(windows_, monitor_->Reports());
    stopped_ = true;
    return OkStatus();
  }

  const pid_t pid_;
  std::shared_ptr<energy::Monitor> monitor_;
  std::unique_ptr<energy_agent::NodeSet> nodes_;
  energy::WindowId window_ = 0;

  Mutex mu_;
  bool stopped_ EMLIO_GUARDED_BY(mu_) = false;
  energy::WindowReport report_;  // these once it has stopped
  std::vector<energy::WindowReport> windows_;
  std::vector<energy_agent::NodeReport> others_;
};

// Where this process's windows go: to its own run, to the `emlio energy record` that started it, to
// both or nowhere. Lives as long as the process.
class Hub : public Observer {
 public:
  // A window's number here, in the run of this process, and in that of who started the process; 0:
  // it is none there.
  struct Numbers {
    uint64_t here = 0;
    energy::WindowId run = 0;
    uint64_t link = 0;
  };

  uint64_t Open(const energy::WindowLabel& label) EMLIO_EXCLUDES(mu_) {
    return OpenAll(label).here;
  }
  Numbers OpenAll(const energy::WindowLabel& label) EMLIO_EXCLUDES(mu_) {
    std::shared_ptr<EnergyRun> run;
    std::shared_ptr<energy_agent::Link> link;
    {
      const MutexLock lock(mu_);
      FindLink();
      run = run_;
      link = link_;
    }
    Window window;
    if (run != nullptr) window.id = run->monitor()->Open(label);
    if (link != nullptr) window.link_id = link->Open(label);
    if (window.id == 0 && window.link_id == 0) return {};
    window.run = std::move(run);
    const MutexLock lock(mu_);
    const Numbers numbers{++last_, window.id, window.link_id};
    windows_.emplace(last_, std::move(window));
    return numbers;
  }

  void Close(uint64_t number, energy::WindowWork work) EMLIO_EXCLUDES(mu_) {
    std::shared_ptr<energy_agent::Link> link;
    Window window;
    {
      const MutexLock lock(mu_);
      auto node = windows_.extract(number);
      if (node.empty()) return;
      window = std::move(node.mapped());
      link = link_;
    }
    if (window.run != nullptr) window.run->monitor()->Close(window.id, work);
    if (link != nullptr) link->Close(window.link_id, work);
  }

  // What the host used in a window, by who started this process: Numbers::link. Waits.
  Result<energy_agent::WindowOfHost> Told(uint64_t link_number) EMLIO_EXCLUDES(mu_) {
    std::shared_ptr<energy_agent::Link> link;
    {
      const MutexLock lock(mu_);
      link = link_;
    }
    if (link == nullptr) return Unavailable("nobody measures for this process");
    return link->Energy(link_number);
  }

  void SetRun(std::shared_ptr<EnergyRun> run) EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    run_ = std::move(run);
  }
  // Before the interpreter ends.
  void LetGo() EMLIO_EXCLUDES(mu_) {
    std::shared_ptr<EnergyRun> run;
    std::shared_ptr<energy_agent::Link> link;
    const MutexLock lock(mu_);
    std::swap(run, run_);
    std::swap(link, link_);
    looked_ = true;
  }

  uint64_t OnEpochBegin(const EpochInfo& info) override { return Open(energy::LabelOf(info)); }
  void OnEpochEnd(uint64_t number, const EpochWork& work) override {
    Close(number, {work.records, work.bytes});
  }
  void OnEnergyAgent(std::string_view endpoint) override EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    FindLink();
    if (run_ != nullptr) run_->AddNode(endpoint);
    if (link_ != nullptr) link_->OnEnergyAgent(endpoint);
  }
  void OnUnmeasuredPeer(std::string_view endpoint, std::string_view boot_id) override
      EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    FindLink();
    if (run_ != nullptr) run_->AddUnmeasured(endpoint, boot_id);
    if (link_ != nullptr) link_->OnUnmeasuredPeer(endpoint, boot_id);
  }

 private:
  struct Window {
    std::shared_ptr<EnergyRun> run;
    energy::WindowId id = 0;
    uint64_t link_id = 0;
  };
  void FindLink() EMLIO_REQUIRES(mu_) {
    if (looked_) return;
    looked_ = true;
    link_ = energy_agent::Link::FromEnvironment();
  }

  Mutex mu_;
  std::shared_ptr<EnergyRun> run_ EMLIO_GUARDED_BY(mu_);
  bool looked_ EMLIO_GUARDED_BY(mu_) = false;
  std::shared_ptr<energy_agent::Link> link_ EMLIO_GUARDED_BY(mu_);
  std::map<uint64_t, Window> windows_ EMLIO_GUARDED_BY(mu_);
  // In a child made by fork other numbers than the parent's.
  uint64_t last_ EMLIO_GUARDED_BY(mu_) = static_cast<uint64_t>(getpid()) << 32;
};

const std::shared_ptr<Hub>& TheHub() {
  // Never destroyed: threads of loaders may outlive static objects, and a child of fork must not
  // touch what other threads held then. The GIL guards these.
  static std::shared_ptr<Hub>* hub = nullptr;
  static pid_t pid = 0;
  if (pid != getpid()) hub = new std::shared_ptr<Hub>(std::make_shared<Hub>());
  pid = getpid();
  return *hub;
}

// Python's side of one EnergyRun, which the hub shares.
class RunHandle {
 public:
  explicit RunHandle(const RunOptions& options) : run_(std::make_shared<EnergyRun>(options)) {
    TheHub()->SetRun(run_);
  }
  nb::dict Report(energy::WindowId id) { return run_->Report(id); }
  void AddNode(const std::string& endpoint) { run_->AddNode(endpoint); }
  nb::dict Stop() {
    TheHub()->SetRun(nullptr);
    return run_->Stop();
  }

 private:
  std::shared_ptr<EnergyRun> run_;
};

}  // namespace

std::shared_ptr<Observer> EnergyObserver() { return TheHub(); }

void BindEnergy(nb::module_& m) {
  nb::class_<RunHandle>(m, "EnergyRun", "The C++ side of an emlio.energy run.")
      .def(
          "__init__",
          [](RunHandle* self, int64_t interval_ms, std::string root, std::string nvml_library,
             std::string rocm_library, std::vector<std::string> gpus, std::string name,
             std::string stage, std::vector<std::string> nodes, int64_t connect_timeout_ms) {
            RunOptions options;
            options.interval_ms = interval_ms;
            options.host.root = std::move(root);
            if (!options.host.root.ends_with('/')) options.host.root += '/';
            options.host.nvml_library = std::move(nvml_library);
            options.host.rocm_library = std::move(rocm_library);
            options.host.gpus = std::move(gpus);
            options.name = std::move(name);
            options.stage = std::move(stage);
            options.nodes = std::move(nodes);
            options.connect_timeout_ms = connect_timeout_ms;
            new (self) RunHandle(options);
          },
          nb::kw_only(), nb::arg("interval_ms"), nb::arg("root"), nb::arg("nvml_library"),
          nb::arg("rocm_library"), nb::arg("gpus"), nb::arg("name"), nb::arg("stage"),
          nb::arg("nodes"), nb::arg("connect_timeout_ms"))
      .def("report", &RunHandle::Report, nb::arg("window"), "What a window of this run used.")
      .def("add_node", &RunHandle::AddNode, nb::arg("endpoint"), "Adds another node's agent.")
      .def("stop", &RunHandle::Stop, "Ends the run: everything that was measured.");
  m.def(
      "energy_open",
      [](std::string name, std::string stage, int64_t epoch, int64_t rank) {
        energy::WindowLabel label;
        label.name = std::move(name);
        label.stage = std::move(stage);
        label.epoch = epoch;
        label.rank = rank;
        const Hub::Numbers numbers = TheHub()->OpenAll(label);
        return std::tuple(numbers.here, numbers.run, numbers.link);
      },
      nb::arg("name"), nb::arg("stage"), nb::arg("epoch"), nb::arg("rank"),
      "Opens a window: its numbers for energy_close, EnergyRun.report and energy_told; 0: none.");
  m.def(
      "energy_told",
      [](uint64_t number) -> nb::object {
        const std::shared_ptr<Hub> hub = TheHub();
        auto told = [&] {
          const GilReleased released;
          return hub->Told(number);
        }();
        if (told.status().code() == Code::kUnavailable) return nb::none();
        const energy_agent::WindowOfHost measured = ValueOrRaise(std::move(told));
        return WindowDict(measured.domains, measured.window);
      },
      nb::arg("number"), "What a window used, by who started this process; None: nobody measures.");
  m.def(
      "energy_close",
      [](uint64_t number, uint64_t records, uint64_t bytes) {
        TheHub()->Close(number, {records, bytes});
      },
      nb::arg("number"), nb::arg("records"), nb::arg("bytes"), "Closes a window.");
  m.def(
      "energy_end",
      [] {
        const GilReleased released;
        TheHub()->LetGo();
      },
      "Ends what is going on, for good: to be called when the interpreter ends.");
}

}  // namespace emlio::python
