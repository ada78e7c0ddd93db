// SPDX-License-Identifier: Apache-2.0
// The conformance vectors of tests/vectors, as scripts/gen_vectors.py describes them, and the
// comparison of results.
#pragma once

#include <hvd/hvd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvd::conformance {

using Bytes = std::vector<unsigned char>;

// An input: shape and contents.
struct Tensor {
  hvd_dtype dtype = HVD_FLOAT32;
  std::vector<int64_t> shape;
  Bytes data;

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
};

// What an output must be: either contents with a tolerance, or a checksum of contents too large for
// the file.
struct Expectation {
  Tensor tensor;
  int64_t ulp = 0;
  bool digest = false;
  uint32_t crc32 = 0;
  size_t bytes = 0;
};

// Options of an operation as one rank gives them.
struct Options {
  std::string op;
  hvd_reduce_op reduce = HVD_SUM;
  int32_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
};

// What one rank does in a vector and must get.
struct Part {
  Options options;
  bool member = true;  // of the vector's set
  bool joins = false;
  std::vector<Tensor> input;
  std::vector<Expectation> expect;
  std::optional<std::vector<int64_t>> splits;
  std::vector<int64_t> expect_splits;
};

struct Vector {
  std::string name;
  int32_t size = 1;
  bool grouped = false;
  bool bitwise = false;
  bool any_joined = false;
  std::vector<int32_t> set;
  std::vector<Part> parts;    // by rank
  std::string expect_status;  // empty: success
  std::vector<std::string> expect_message_has;
};

// Ends the process with a message if the file is no vector file: a broken file must not pass as an
// empty one.
std::vector<Vector> read_vectors(const std::filesystem::path& path);

// Empty if `actual` is what is expected, else one line that says where it is not.
std::string difference(const Expectation& expected, const hvd_tensor& actual, bool bitwise);

size_t element_count(const std::vector<int64_t>& shape);

}  // namespace hvd::conformance
