// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "emlio/dataset/size_histogram.h"
#include "emlio/dataset/survey.h"
#include "emlio/example/image_header.h"
#include "emlio/example/schema.h"

// What `emlio inspect` found, as text for people and as JSON (docs/cli.md). Text is UTF-8 without
// control characters, whatever the data hold; lines end with \n and keep to `columns` where names
// allow it.
namespace emlio::tool {

// "JPEG 500x375, 3 channels"; "TIFF" where the size is not known.
std::string ImageText(const example::ImageHeader& image);

// "tf.train.Example", or what there is of each: "98 tf.train.Example, 2 empty".
std::string ContentText(const example::Schema& schema);
// The features: a table, what images there are, and what nobody can ask for. "" without any.
std::string FeaturesText(const example::Schema& schema, size_t columns);
// A line for every bin, with a bar.
std::string SizesText(const dataset::SizeHistogram& sizes, size_t columns);
// One record: its content, and all of its values but for long bytes, of which there is the
// beginning.
std::string RecordText(std::span<const uint8_t> record, size_t columns);
// One line about a record that is no tf.train.Example.
std::string OtherRecordText(std::span<const uint8_t> record, size_t columns);
// With whole paths, however long.
std::string FileKindsText(std::span<const dataset::FileKind> kinds);

nlohmann::ordered_json ContentJson(const example::Schema& schema);
nlohmann::ordered_json FeaturesJson(const example::Schema& schema);
nlohmann::ordered_json SizesJson(const dataset::SizeHistogram& sizes);
// Whole, with every byte.
nlohmann::ordered_json RecordJson(std::span<const uint8_t> record);
nlohmann::ordered_json FileKindsJson(std::span<const dataset::FileKind> kinds);

// What emlio.Loader(features=...) takes to read everything that was found, and a line for each
// feature that has to be left out.
struct FeaturesOption {
  std::vector<example::FeatureSpec> specs;
  std::vector<std::string> left_out;
};
FeaturesOption FeaturesOptionOf(const example::Schema& schema);
// An object that is JSON and a Python dict alike.
nlohmann::ordered_json FeaturesOptionJson(const FeaturesOption& option);

}  // namespace emlio::tool
