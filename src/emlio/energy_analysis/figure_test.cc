// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::HasSubstr;

const Figure kPackage{.joules = 100, .label = Label::kMeasured, .uncertainty_joules = 1};
const PowerModel kModel{
    .name = "tdp", .source = "data sheet", .error_percent = 40, .watts = 10, .joules_per_gb = 5};

TEST(FigureTest, ASumHasTheLeastFoundedLabel) {
  const Figure gpu{.joules = 50, .label = Label::kIntegrated, .uncertainty_joules = 2};
  const Figure sum = SumOf(std::array{kPackage, gpu});
  EXPECT_DOUBLE_EQ(*sum.joules, 150);
  EXPECT_DOUBLE_EQ(sum.uncertainty_joules, 3);
  EXPECT_EQ(sum.label, Label::kIntegrated);
}

TEST(FigureTest, ASumIsNeverSmallerBecauseSomethingIsMissing) {
  const Figure missing{.cause = "no counter", .fix = "load rapl"};
  const Figure sum = SumOf(std::array{kPackage, missing});
  EXPECT_FALSE(sum.joules);
  EXPECT_EQ(sum.label, Label::kNone);
  EXPECT_EQ(FigureText(sum), "n/a (no counter)");
  EXPECT_EQ(sum.fix, "load rapl");
  EXPECT_FALSE(SumOf({}).joules);
}

TEST(FigureTest, EveryStateWithoutJoulesIsNotAvailable) {
  for (const auto state : {energy::State::kBelowResolution, energy::State::kImplausible,
                           energy::State::kGap, energy::State::kUnavailable}) {
    EXPECT_EQ(LabelOf(state), Label::kNone);
  }
  EXPECT_EQ(LabelName(LabelOf(energy::State::kShared)), "whole_device");
  EXPECT_EQ(LabelName(LabelOf(energy::State::kVirtualised)), "virtualised");
}

TEST(FigureTest, ModelledJoulesNeedAModelAndItsSource) {
  EXPECT_TRUE(CheckModel(kModel).ok());
  PowerModel model = kModel;
  model.source.clear();
  EXPECT_THAT(CheckModel(model).message(), HasSubstr("source is missing"));
  model = kModel;
  model.error_percent = -1;
  EXPECT_THAT(CheckModel(model).message(), HasSubstr("error"));
  model = kModel;
  model.watts = model.joules_per_gb = 0;
  EXPECT_FALSE(CheckModel(model).ok());
  EXPECT_FALSE(CheckModel({}).ok());
}

TEST(FigureTest, ModelledJoulesCarryTheirErrorAndAreInNoTotal) {
  const Figure modelled = ModelledJoules(kModel, 10, 0, 4e9);
  EXPECT_DOUBLE_EQ(*modelled.joules, 120);
  EXPECT_DOUBLE_EQ(modelled.uncertainty_joules, 48);
  EXPECT_EQ(FigureText(modelled), "120 J (modelled)");
  EXPECT_THAT(modelled.cause, HasSubstr("tdp (data sheet), stated error 40 %"));
  const Figure sum = SumOf(std::array{kPackage, modelled});
  EXPECT_FALSE(sum.joules);
  EXPECT_THAT(sum.cause, HasSubstr("modelled"));
}

TEST(FigureTest, AModelOfWhatWasNotCountedGivesNoJoules) {
  PowerModel model = kModel;
  model.joules_per_cpu_second = 20;
  model.joules_per_gb = 5;
  EXPECT_TRUE(ModelledJoules(model, 10, 3.0, 4e9).joules);
  const Figure no_cpu = ModelledJoules(model, 10, std::nullopt, 4e9);
  EXPECT_FALSE(no_cpu.joules);
  EXPECT_EQ(no_cpu.label, Label::kNone);
  EXPECT_THAT(no_cpu.cause, HasSubstr("CPU-seconds, which are not known"));
  EXPECT_THAT(ModelledJoules(model, 10, 3.0, std::nullopt).cause, HasSubstr("bytes"));
  model.joules_per_cpu_second = model.joules_per_gb = 0;
  EXPECT_DOUBLE_EQ(*ModelledJoules(model, 10, std::nullopt, std::nullopt).joules, 10 * model.watts);
}

TEST(FigureTest, SharesByCpuTimeAreAllocatedAndInNoTotal) {
  const Figure share = AllocatedByCpuTime(kPackage, 2, 8);
  EXPECT_DOUBLE_EQ(*share.joules, 25);
  EXPECT_EQ(LabelName(share.label), "allocated");
  EXPECT_FALSE(SumOf(std::array{share}).joules);
  EXPECT_FALSE(AllocatedByCpuTime(kPackage, 9, 8).joules);
  EXPECT_FALSE(AllocatedByCpuTime(kPackage, 0, 0).joules);
  EXPECT_FALSE(AllocatedByCpuTime({.cause = "no counter"}, 2, 8).joules);
  EXPECT_FALSE(AllocatedByCpuTime(ModelledJoules(kModel, 1, 0, 0), 2, 8).joules);
}

TEST(NumbersTest, NumbersHaveThreeDigitsAndAPrefix) {
  EXPECT_EQ(JoulesText(41234), "41.2 kJ");
  EXPECT_EQ(JoulesText(-2610), "-2.61 kJ");
  EXPECT_EQ(JoulesText(0), "0 J");
  EXPECT_EQ(JoulesText(999.7), "1.00 kJ");
  EXPECT_EQ(JoulesText(0.0421), "42.1 mJ");
  EXPECT_EQ(JoulesText({}), "n/a");
  EXPECT_EQ(SecondsText(312.4), "312 s");
  EXPECT_EQ(WithUnit(0.0421, "%"), "0.0421 %");
}

TEST(NumbersTest, ASpreadDecidesHowManyDigitsAreShown) {
  EXPECT_EQ(WithSpread(41234, 1934, "J"), "41.2 ± 1.9 kJ");
  EXPECT_EQ(WithSpread(118400, 2200, "J"), "118.4 ± 2.2 kJ");
  EXPECT_EQ(WithSpread(1, 5000, "J"), "0.0 ± 5.0 kJ");
  EXPECT_EQ(WithSpread(379, {}, "W"), "379 W");
  EXPECT_EQ(WithSpread(5, 0, "J"), "5.00 ± 0.00 J");
  EXPECT_EQ(EstimateText({.value = 5}, "J"), "5.00 J (no interval)");
}

TEST(NumbersTest, ASpreadThatIsNotZeroDoesNotReadZero) {
  EXPECT_EQ(WithSpread(143, 0.0004, "W"), "143.00 ± < 0.01 W");
  EXPECT_EQ(WithSpread(10, 1e-7, "W"), "10.000 ± < 0.001 W");
  EXPECT_EQ(WithSpread(-143e3, 0.4, "J"), "-143.00 ± < 0.01 kJ");
  EXPECT_EQ(WithSpread(143, 0.006, "W"), "143.00 ± 0.01 W");
  EXPECT_EQ(WithSpread(143, 0.05, "W"), "143.00 ± 0.05 W");
  EXPECT_EQ(WithSpread(0, 1e-9, "W"), "0.0000 ± 0.0010 µW");
}

TEST(NumbersTest, RatiosHaveTheirInterval) {
  EXPECT_EQ(RatioText({.value = 2.412, .interval = Interval{2.2, 2.66}}),
            "2.41 (95 %: 2.20 to 2.66)");
  EXPECT_EQ(RatioText({.value = 2.412}), "2.41 (no interval)");
  EXPECT_EQ(RatioText({.value = std::numeric_limits<double>::infinity()}), "n/a");
}

TEST(NumbersTest, AmountsAreReadAsPeopleWriteThem) {
  const auto value_of = [](std::string_view text) {
    const auto amount = AmountOf(text);
    return amount && amount->rest.empty() ? amount->value : -1;
  };
  for (const auto& [text, value] :
       std::initializer_list<std::pair<const char*, double>>{{"1000", 1000},
                                                             {" 1000 ", 1000},
                                                             {"2.0e9", 2e9},
                                                             {"1.28 M", 1.28e6},
                                                             {"110 kB", 110e3},
                                                             {"3TB", 3e12},
                                                             {"1.5 GiB", 1.5 * 0x1p30},
                                                             {"1,281,167", 1281167},
                                                             {"12,345.5 B", 12345.5},
                                                             {"90 epochs", 90},
                                                             {"0.5", 0.5}}) {
    EXPECT_DOUBLE_EQ(value_of(text), value) << text;
  }
  for (const char* none : {"", "x", "-1", "0", "0 GB", "nan", "inf", "1e999", "about 5", "M"}) {
    EXPECT_FALSE(AmountOf(none)) << none;
  }
  // What follows and is not understood is told, and the number is not taken for all of it.
  for (const char* more : {"1,2", "1,2345", "5 per GPU", "7 Mx", "1 or 2"}) {
    ASSERT_TRUE(AmountOf(more)) << more;
    EXPECT_NE(AmountOf(more)->rest, "") << more;
  }
}

}  // namespace
}  // namespace emlio::energy_analysis
