#include "tenon/nn/data/text_corpus.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>

#include "tenon/tests/support/scratch.h"

using namespace std::string_literals;
using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::read_file;
using tenon::testing::ScratchDirectory;
using tenon::testing::write_file;

namespace {

void write_gz(const std::string& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

}  // namespace

TEST_CASE("a text reads the same plain and compressed, to the byte") {
  const ScratchDirectory directory;
  const std::string path = directory.file("text");
  std::string text = "\xef\xbb\xbf line\r\n\0 é"s;
  for (int i = 0; i < 15; ++i) {
    write_file(path, text);
    CHECK(read_text(path) == text);
    write_gz(path, text);
    CHECK(read_text(path) == text);
    text += text;
  }
  write_file(path, "x");
  CHECK(read_text(path) == "x");
}

TEST_CASE("texts that cannot be read are named") {
  const ScratchDirectory directory;
  const std::string path = directory.file("text");
  CHECK_THAT(bad_data_error_of([&] { read_text(path); }), Contains(path + ": no such file"));
  CHECK_THAT(bad_data_error_of([&] { read_text(directory.path()); }), Contains("a directory"));
  write_file(path, "");
  CHECK_THAT(bad_data_error_of([&] { read_text(path); }), Contains(path + ": it is empty"));
  write_gz(path, "");
  CHECK_THAT(bad_data_error_of([&] { read_text(path); }), Contains("it is empty"));
  write_gz(path, std::string(100000, 'x'));
  const std::string packed = read_file(path);
  write_file(path, packed.substr(0, packed.size() - 5));
  CHECK_THAT(bad_data_error_of([&] { read_text(path); }), Contains("cut short"));
}
