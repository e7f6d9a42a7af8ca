// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/image_header.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "emlio/example/test_util.h"

namespace emlio::example {

bool operator==(const ImageHeader& a, const ImageHeader& b) {
  return a.format == b.format && a.width == b.width && a.height == b.height &&
         a.channels == b.channels;
}
void PrintTo(const ImageHeader& header, std::ostream* to) {
  *to << ImageFormatName(header.format) << " " << header.width << "x" << header.height << ", "
      << header.channels << " channels";
}

namespace {

using std::string_literals::operator""s;

std::string Recognized(const std::string& data) {
  const auto format = RecognizeImage(AsBytes(data));
  return format ? std::string(ImageFormatName(*format)) : "";
}
std::optional<ImageHeader> Read(const std::string& data) { return ReadImageHeader(AsBytes(data)); }
ImageHeader Header(ImageFormat format, uint32_t width, uint32_t height, uint32_t channels) {
  return {.format = format, .width = width, .height = height, .channels = channels};
}
ImageHeader NoSize(ImageFormat format) { return {.format = format}; }

// A JPEG segment: marker, length, contents.
std::string Segment(uint8_t marker, const std::string& contents) {
  const size_t length = contents.size() + 2;
  return "\xff"s + static_cast<char>(marker) + static_cast<char>(length >> 8) +
         static_cast<char>(length & 0xff) + contents;
}
// 500 pixels wide, 375 high.
std::string Frame(uint8_t marker, char components = 3) {
  return Segment(marker, "\x08\x01\x77\x01\xf4"s + components + "\1\x22\0"s);
}
const std::string kSoi = "\xff\xd8";
const std::string kApp0 = Segment(0xe0, "JFIF\0\1\1\0\0\1\0\1\0\0"s);

std::string Png(char colour_type) {
  return "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x20\0\0\1\2\x08"s + colour_type + "\0\0\0"s;
}
std::string Webp(const std::string& chunk) { return "RIFF\x40\0\0\0WEBP"s + chunk; }
std::string Bmp(const std::string& dib) { return "BM\x46\0\0\0\0\0\0\0\x36\0\0\0"s + dib; }

TEST(ImageHeaderTest, FormatsAreKnownByTheirSignature) {
  EXPECT_EQ(Recognized("\xff\xd8\xff\xe0"), "jpeg");
  EXPECT_EQ(Recognized("\x89PNG\r\n\x1a\n"), "png");
  EXPECT_EQ(Recognized("RIFF\x10\0\0\0WEBPVP8 "s), "webp");
  EXPECT_EQ(Recognized("BM\x10"), "bmp");
  EXPECT_EQ(Recognized("GIF89a"), "gif");
  EXPECT_EQ(Recognized("II*\0"s), "tiff");
  EXPECT_EQ(Recognized("MM\0*"s), "tiff");
  EXPECT_EQ(Recognized("P6\n1 1"), "pnm");
  for (const auto& other :
       {""s, "RIFF"s, "RIFF\x10\0\0\0WAVEfmt "s, "P7\n"s, "P6"s, "\xff\xd8"s, "II*"s}) {
    EXPECT_EQ(Recognized(other), "") << other;
  }
}

TEST(ImageHeaderTest, JpegHasItsSizeInTheFrameHeaderOfAnyCoding) {
  for (const uint8_t marker : {0xc0, 0xc1, 0xc2, 0xc9, 0xcf}) {
    EXPECT_EQ(Read(kSoi + kApp0 + Frame(marker)), Header(ImageFormat::kJpeg, 500, 375, 3));
  }
  EXPECT_EQ(Read(kSoi + Frame(0xc0, 1)), Header(ImageFormat::kJpeg, 500, 375, 1));
}

TEST(ImageHeaderTest, JpegSegmentsThatLookLikeFramesArePassedOver) {
  // A thumbnail inside a segment, Huffman tables, fill bytes, a restart marker without a length.
  const std::string thumbnail = Segment(0xe1, kSoi + Segment(0xc0, "\x08\0\1\0\1\3\1\x22\0"s));
  const std::string image = kSoi + thumbnail + Segment(0xc4, "0123456789") + "\xff\xff\xff" +
                            "\xd0" + Segment(0xcc, "0123456789") + Frame(0xc2);
  EXPECT_EQ(Read(image), Header(ImageFormat::kJpeg, 500, 375, 3));
}

TEST(ImageHeaderTest, JpegWithoutAWholeFrameHeaderHasNoSize) {
  const std::string whole = kSoi + kApp0 + Frame(0xc0);
  for (size_t size = 3; size + 3 < whole.size(); ++size) {
    EXPECT_EQ(Read(whole.substr(0, size)), NoSize(ImageFormat::kJpeg)) << size;
  }
  EXPECT_EQ(Read(kSoi + Segment(0xda, "scan") + Frame(0xc0)), NoSize(ImageFormat::kJpeg));
  EXPECT_EQ(Read(kSoi + "\xff\xe0\0\1"s + Frame(0xc0)), NoSize(ImageFormat::kJpeg));
  EXPECT_EQ(Read(kSoi + Frame(0xc0, 0)), NoSize(ImageFormat::kJpeg));
}

TEST(ImageHeaderTest, PngHasItsChannelsInTheColourType) {
  for (const auto& [colour_type, channels] :
       {std::pair('\0', 1), {'\2', 3}, {'\3', 3}, {'\4', 2}, {'\6', 4}}) {
    EXPECT_EQ(Read(Png(colour_type)), Header(ImageFormat::kPng, 32, 258, channels));
  }
  EXPECT_EQ(Read(Png('\1')), NoSize(ImageFormat::kPng));
  EXPECT_EQ(Read(Png('\2').substr(0, 25)), NoSize(ImageFormat::kPng));
}

TEST(ImageHeaderTest, WebpIsReadInAllThreeForms) {
  const std::string lossy = Webp("VP8 \x20\0\0\0\x30\1\0\x9d\x01\x2a\x26\x02\x70\x41"s);
  EXPECT_EQ(Read(lossy), Header(ImageFormat::kWebp, 550, 368, 3));
  // 14 bits each of width - 1 and height - 1, then the alpha bit.
  const uint32_t bits = (400 - 1) | (301 - 1) << 14 | 1 << 28;
  std::string lossless = Webp("VP8L\x20\0\0\0\x2f"s);
  for (int i = 0; i < 4; ++i) lossless += static_cast<char>(bits >> 8 * i);
  EXPECT_EQ(Read(lossless), Header(ImageFormat::kWebp, 400, 301, 4));
  const std::string extended = Webp("VP8X\x0a\0\0\0\0\0\0\0\xff\1\0\xff\0\1"s);
  EXPECT_EQ(Read(extended), Header(ImageFormat::kWebp, 512, 0x100 * 0x100 + 0x100, 3));
  for (const std::string& whole : {lossy, lossless, extended}) {
    EXPECT_EQ(Read(whole.substr(0, whole.size() - 1)), NoSize(ImageFormat::kWebp));
  }
}

TEST(ImageHeaderTest, GifHasItsScreenSize) {
  EXPECT_EQ(Read("GIF87a\x40\1\xf0\0"s), Header(ImageFormat::kGif, 320, 240, 3));
  EXPECT_EQ(Read("GIF89a\x40\1\xf0"s), NoSize(ImageFormat::kGif));
}

TEST(ImageHeaderTest, BmpIsAnImageOnlyWithAHeaderThatHolds) {
  const std::string rest(20, '\0');
  EXPECT_EQ(Read(Bmp("\x28\0\0\0\x40\1\0\0\xf0\0\0\0\1\0\x18\0"s + rest)),
            Header(ImageFormat::kBmp, 320, 240, 3));
  // Rows from the top have a negative height.
  EXPECT_EQ(Read(Bmp("\x28\0\0\0\x40\1\0\0\x10\xff\xff\xff\1\0\x20\0"s + rest)),
            Header(ImageFormat::kBmp, 320, 240, 4));
  EXPECT_EQ(Read(Bmp("\x0c\0\0\0\x40\1\xf0\0\1\0\x08\0"s + rest)),
            Header(ImageFormat::kBmp, 320, 240, 3));
  EXPECT_EQ(Read("BMW is a maker of cars, and this is a long enough text"), std::nullopt);
  EXPECT_EQ(Read(Bmp("\x28\0\0\0\x40\1\0\0\xf0\0\0\0\2\0\x18\0"s + rest)), std::nullopt);
}

TEST(ImageHeaderTest, PnmIsAnImageOnlyWithAHeaderThatHolds) {
  EXPECT_EQ(Read("P6\n# made by hand\n640 # wide\n480\n255\n"),
            Header(ImageFormat::kPnm, 640, 480, 3));
  EXPECT_EQ(Read("P5 7 9 255\n"), Header(ImageFormat::kPnm, 7, 9, 1));
  for (const auto& text : {"P2 is what this text begins with", "P6 640", "P6 640 480",
                           "P6 99999999999 1 255\n", "P6 0 5 255\n"}) {
    EXPECT_EQ(Read(text), std::nullopt) << text;
  }
}

TEST(ImageHeaderTest, TiffIsNamedWithoutASize) {
  EXPECT_EQ(Read("II*\0\x08\0\0\0"s), NoSize(ImageFormat::kTiff));
}

}  // namespace
}  // namespace emlio::example
