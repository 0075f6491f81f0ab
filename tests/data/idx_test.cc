#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/nn/data/idx.h"
#include "tenon/nn/data/image_dataset.h"
#include "tenon/tests/support/scratch.h"
#include "tenon/tests/support/skip.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::read_file;
using tenon::testing::ScratchDirectory;
using tenon::testing::write_file;

namespace {

std::string idx(const std::vector<uint32_t>& sizes, const std::string& values, char type = 8) {
  std::string bytes{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  return bytes + values;
}

std::string counting(size_t count) {
  std::string values;
  for (size_t i = 0; i < count; ++i) values += static_cast<char>(i);
  return values;
}

void write_gz(const std::string& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

// The error of reading `bytes` as an array of 3 dimensions.
std::string error_for(const std::string& bytes) {
  const ScratchDirectory directory;
  const std::string path = directory.file("images");
  write_file(path, bytes);
  const std::string text = bad_data_error_of([&] { read_idx(path, 3); });
  CHECK_THAT(text, Contains(path));
  return text;
}

}  // namespace

TEST_CASE("an IDX file reads the same plain and compressed") {
  const ScratchDirectory directory;
  const std::string bytes = idx({5, 3, 4}, counting(60));
  write_file(directory.file("plain"), bytes);
  write_gz(directory.file("packed.gz"), bytes);
  for (const char* name : {"plain", "packed.gz"}) {
    const Tensor x = read_idx(directory.file(name), 3);
    CHECK(x.shape() == Shape{5, 3, 4});
    CHECK(x.dtype() == DType::u8);
    CHECK(x.to_vector()[59] == 59);
  }
}

TEST_CASE("an array of size 0 is read") {
  const ScratchDirectory directory;
  write_file(directory.file("none"), idx({0, 28, 28}, ""));
  CHECK(read_idx(directory.file("none"), 3).shape() == Shape{0, 28, 28});
}

TEST_CASE("a missing file and a directory are named") {
  const ScratchDirectory directory;
  CHECK_THAT(bad_data_error_of([&] { read_idx(directory.file("nothing"), 3); }),
             Contains("nothing: no such file"));
  CHECK_THAT(bad_data_error_of([&] { read_idx(directory.path(), 3); }), Contains("a directory"));
}

TEST_CASE("damaged and foreign IDX files say what was found") {
  const std::string good = idx({5, 3, 4}, counting(60));
  CHECK_THAT(error_for(""), Contains("cut short: 0 bytes"));
  CHECK_THAT(error_for(good.substr(0, 3)), Contains("cut short: 3 bytes"));
  CHECK_THAT(error_for(good.substr(0, 9)), Contains("cut short within its sizes"));
  CHECK_THAT(error_for(good.substr(0, 50)), Contains("34 bytes of values, wanted 60"));
  CHECK_THAT(error_for(good + "x"), Contains("more data than its sizes say"));
  CHECK_THAT(error_for("PK\3\4 and so on"), Contains("begins with bytes 80 75, wanted 0 0"));
  CHECK_THAT(error_for(idx({5}, counting(5))),
             Contains("wrong number of dimensions: given 1, wanted 3"));
  CHECK_THAT(error_for(idx({5, 3, 4}, counting(60), 0x0d)), Contains("wrong element type"));
  CHECK_THAT(error_for(idx({~0u, ~0u, ~0u}, "")), Contains("too large"));
  CHECK_THAT(error_for(idx({~0u, 1000, 1}, "abc")), Contains("3 bytes of values"));
}

TEST_CASE("damaged compressed files say so") {
  const ScratchDirectory directory;
  write_gz(directory.file("good.gz"), idx({5, 30, 40}, counting(6000)));
  const std::string packed = read_file(directory.file("good.gz"));
  const std::string path = directory.file("bad.gz");
  for (const size_t length : {packed.size() / 2, packed.size() - 4}) {
    write_file(path, packed.substr(0, length));
    CHECK_THAT(bad_data_error_of([&] { read_idx(path, 3); }),
               Contains(path) && (Contains("cut short") || Contains("cannot unpack")));
  }
  std::string wrong = packed;
  wrong[wrong.size() - 6] = static_cast<char>(wrong[wrong.size() - 6] ^ 1);  // of the checksum
  write_file(path, wrong);
  CHECK_THAT(bad_data_error_of([&] { read_idx(path, 3); }), Contains("cannot unpack"));
}

TEST_CASE("a dataset finds its files and makes normalised batches") {
  const ScratchDirectory directory;
  write_gz(directory.file("train-images-idx3-ubyte.gz"), idx({5, 3, 4}, counting(60)));
  write_file(directory.file("train-labels-idx1-ubyte"), idx({5}, {3, 1, 4, 1, 5}));
  const ImageDataset data = load_idx_dataset(directory.path(), Split::train);
  CHECK(data.size() == 5);
  CHECK(data.height() == 3);
  CHECK(data.width() == 4);
  CHECK(data.classes() == 6);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ImageBatch batch = data.batch({4, 0}, {.mean = 0.25, .stddev = 0.5, .dtype = dtype});
    CHECK(batch.images.shape() == Shape{2, 1, 3, 4});
    CHECK(batch.images.dtype() == dtype);
    CHECK(batch.targets.to_vector() == std::vector<double>{5, 3});
    const std::vector<double> pixels = batch.images.to_vector();
    for (size_t i = 0; i < 24; ++i) {
      const double pixel = i < 12 ? 48 + static_cast<double>(i) : static_cast<double>(i) - 12;
      CHECK(pixels[i] == Approx((pixel / 255 - 0.25) / 0.5).epsilon(1e-6).margin(1e-7));
    }
  }
  CHECK(data.batch({}).images.shape() == Shape{0, 1, 3, 4});
  CHECK_THAT(tenon::testing::error_of([&] { data.batch({5}); }), Contains("given 5, there are 5"));
  CHECK_THAT(tenon::testing::error_of([&] { data.batch({0}, {.dtype = DType::i64}); }),
             Contains("unsupported dtype"));
  CHECK(data.measured_format().mean == Approx(29.5 / 255));
}

TEST_CASE("datasets that lack files or do not fit together are refused") {
  const ScratchDirectory directory;
  const auto load = [&] { load_idx_dataset(directory.path(), Split::test); };
  CHECK_THAT(bad_data_error_of([&] { load_idx_dataset(directory.file("x"), Split::test); }),
             Contains("no such directory"));
  CHECK_THAT(bad_data_error_of(load), Contains("no file t10k-images-idx3-ubyte"));
  write_file(directory.file("t10k-images-idx3-ubyte"), idx({5, 3, 4}, counting(60)));
  CHECK_THAT(bad_data_error_of(load), Contains("no file t10k-labels-idx1-ubyte"));
  write_file(directory.file("t10k-labels-idx1-ubyte"), idx({4}, counting(4)));
  CHECK_THAT(bad_data_error_of(load),
             Contains("5 images, 4 labels") && Contains("t10k-labels-idx1-ubyte"));
  write_file(directory.file("t10k-images-idx3-ubyte"), idx({0, 3, 4}, ""));
  write_file(directory.file("t10k-labels-idx1-ubyte"), idx({0}, ""));
  CHECK_THAT(bad_data_error_of(load), Contains("no images"));
}

TEST_CASE("Fashion-MNIST is read as it is installed") {
  const std::string directory = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(directory)) TENON_SKIP("no " + directory);
  const ImageDataset data = load_idx_dataset(directory, Split::test);
  CHECK(data.images().shape() == Shape{10000, 28, 28});
  CHECK(data.classes() == 10);
  CHECK(data.measured_format().mean == Approx(0.286).margin(0.002));
}
