// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/export_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "emlio/energy/testing/store_file.h"
#include "emlio/energy_sinks/influx_sink.h"
#include "emlio/energy_sinks/testing/scripted_influx.h"

namespace emlio::energy_sinks {
namespace {

using energy::RunReader;
using energy::RunStore;
using energy::testing::SomeNode;
using energy::testing::SomeRun;
using energy::testing::SteadySamples;
using energy::testing::TickOf;
using ::testing::HasSubstr;

constexpr int64_t kLongNs = 60 * kNsPerSecond;

class ExportRunTest : public ::testing::Test {
 protected:
  // A run of two ticks and a window on a node whose second domain cannot be read.
  void Store() {
    auto store = RunStore::Open(path_);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->BeginRun(SomeRun("run,1")).ok());
    energy::NodeInfo info = SomeNode("n");
    info.domains.resize(2);
    info.domains[1].cause = "nobody \"may\" read it";
    const auto node = (*store)->AddNode("run,1", info);
    ASSERT_TRUE(node.ok());
    for (const int64_t tick : {0, 1}) {
      (*store)->AppendTick(*node, TickOf(tick, SteadySamples(2, tick)));
    }
    energy::WindowRecord window;
    window.id = "w";
    window.name = "read";
    window.epoch = 2;
    window.begin_ns = 1'000'000'000;
    window.end_ns = 3'500'000'000;
    window.energies.resize(2);
    window.energies[0].state = energy::State::kMeasured;
    window.energies[0].joules = 5;
    window.energies[0].uncertainty_joules = 0.5;
    window.energies[1].cause = info.domains[1].cause;
    window.total.domains = {"package-0"};
    window.total.missing = {"dram-0", "gpu-1"};
    window.proxies.bytes_read = 0;
    (*store)->AppendWindow(*node, window);
    ASSERT_TRUE((*store)->Flush(kLongNs).ok());
  }
  std::string Export(ExportTable table, ExportFormat format, int64_t rows) {
    auto reader = RunReader::Open(path_);
    EXPECT_TRUE(reader.ok());
    std::string text;
    const auto count = ExportRun(**reader, "run,1", table, format, [&](std::string_view piece) {
      text += piece;
      return OkStatus();
    });
    EXPECT_TRUE(count.ok()) << count.status().ToString();
    EXPECT_EQ(count.ok() ? *count : -1, rows);
    return text;
  }

  energy::testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("energy.db");
};

TEST_F(ExportRunTest, SamplesAsCsv) {
  Store();
  EXPECT_EQ(Export(ExportTable::kSamples, ExportFormat::kCsv, 4),
            "run,node,domain,kind,source,device,in_total,wall_ns,monotonic_ns,state,energy_uj,"
            "delta_j,void_ns,wraps,resets,gaps,stalls,ambiguous\n"
            "\"run,1\",n,package-0,package,powercap,,true,1800000000000000000,5000000000000,first,"
            "0,,0,0,0,0,0,0\n"
            "\"run,1\",n,dram-0,dram,powercap,,true,1800000000000000000,5000000002000,unavailable,"
            ",,,,,,,\n"
            "\"run,1\",n,package-0,package,powercap,,true,1800000000100000000,5000100000000,moved,"
            "1000000,1.000000,0,0,0,0,0,0\n"
            "\"run,1\",n,dram-0,dram,powercap,,true,1800000000100000000,5000100002000,unavailable,"
            ",,,,,,,\n");
}

TEST_F(ExportRunTest, WindowsAsCsv) {
  Store();
  EXPECT_EQ(Export(ExportTable::kWindows, ExportFormat::kCsv, 1),
            "run,node,window,name,stage,epoch,rank,begin_ns,end_ns,begin_wall_ns,seconds,state,"
            "joules,uncertainty_j,domains,missing,without,cpu_seconds,gpu_seconds,bytes_read,"
            "bytes_sent,bytes_delivered,records_delivered,labels\n"
            "\"run,1\",n,w,read,,2,,1000000000,3500000000,0,2.5,unavailable,,,package-0,"
            "dram-0 gpu-1,,,,0,,,,{}\n");
  EXPECT_EQ(Export(ExportTable::kEnergies, ExportFormat::kCsv, 2),
            "run,node,window,name,stage,epoch,rank,domain,kind,in_total,begin_ns,end_ns,"
            "begin_wall_ns,state,joules,uncertainty_j,void_ns,wraps,resets,gaps,stalls,ambiguous,"
            "cause,fix\n"
            "\"run,1\",n,w,read,,2,,package-0,package,true,1000000000,3500000000,0,measured,5,0.5,"
            "0,0,0,0,0,0,,\n"
            "\"run,1\",n,w,read,,2,,dram-0,dram,true,1000000000,3500000000,0,unavailable,,,0,0,0,0,"
            "0,0,\"nobody \"\"may\"\" read it\",\n");
}

TEST_F(ExportRunTest, LineProtocolIsWhatASinkSends) {
  Store();
  testing::ScriptedInflux server;
  InfluxOptions options;
  options.url = server.Url();
  options.bucket = "b";
  {
    energy::NodeInfo info = SomeNode("n");
    info.domains.resize(2);
    info.domains[1].cause = "x";
    const auto sink = InfluxSink::Start(options, "run,1", "n", info.domains);
    ASSERT_TRUE(sink.ok());
    for (const int64_t tick : {0, 1}) {
      (*sink)->Append(TickOf(tick, {}).wall_ns, SteadySamples(2, tick));
    }
    ASSERT_TRUE((*sink)->Flush(kLongNs).ok());
  }
  std::istringstream lines(Export(ExportTable::kSamples, ExportFormat::kInflux, 4));
  const auto sent = server.points();
  EXPECT_EQ(sent.size(), 4U);
  for (std::string line; std::getline(lines, line);) {
    const size_t time = line.rfind(' ');
    const size_t tags = line.rfind(' ', time - 1);
    const std::string point = line.substr(0, tags) + line.substr(time);
    EXPECT_TRUE(sent.contains(point)) << line;
    EXPECT_EQ(server.FieldsOf(point), line.substr(tags + 1, time - tags - 1));
  }
}

TEST_F(ExportRunTest, TheOutputsErrorEndsIt) {
  Store();
  auto reader = RunReader::Open(path_);
  const auto count = ExportRun(**reader, "run,1", ExportTable::kSamples, ExportFormat::kCsv,
                               [](std::string_view) { return IoError("full"); });
  EXPECT_EQ(count.status().code(), Code::kIo);
  EXPECT_EQ(ExportRun(**reader, "run,1", ExportTable::kWindows, ExportFormat::kInflux,
                      [](std::string_view) { return OkStatus(); })
                .status()
                .code(),
            Code::kInvalidArgument);
}

TEST(ExportNamesTest, NamesThatThereAreNotAreAnsweredWithThoseThatThereAre) {
  EXPECT_EQ(*ParseExportTable("windows"), ExportTable::kWindows);
  EXPECT_EQ(*ParseExportFormat("influx"), ExportFormat::kInflux);
  EXPECT_THAT(ParseExportTable("x").status().message(), HasSubstr("samples, windows, energies"));
  EXPECT_THAT(ParseExportFormat("parquet").status().message(), HasSubstr("pip install pyarrow"));
}

}  // namespace
}  // namespace emlio::energy_sinks
