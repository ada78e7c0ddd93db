// SPDX-License-Identifier: Apache-2.0
#include "vectors.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace hvd::conformance {

namespace {

using Json = nlohmann::json;

[[noreturn]] void broken(const std::string& what) {
  std::fprintf(stderr, "run_vectors: %s\n", what.c_str());
  std::exit(2);
}

hvd_dtype dtype_of(const std::string& name) {
  for (hvd_dtype dtype = 0; hvd_dtype_size(dtype) != 0; ++dtype) {
    if (name == hvd_dtype_name(dtype)) return dtype;
  }
  broken("no dtype named " + name);
}

hvd_reduce_op reduce_of(const std::string& name) {
  const char* const names[] = {"average", "sum", "adasum", "min", "max", "product"};
  for (int i = 0; i < 6; ++i) {
    if (name == names[i]) return i;
  }
  broken("no reduce op named " + name);
}

Bytes from_hex(const std::string& text) {
  Bytes bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<unsigned char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

uint16_t float16_bits(int64_t value) {  // exact for the small integers of fills
  if (value == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(std::llabs(value));
  if (magnitude > 2048) broken("fill too large for float16");
  const int exponent = std::ilogb(static_cast<double>(magnitude));
  const auto mantissa = static_cast<unsigned>((magnitude << 10 >> exponent) & 0x3ff);
  return static_cast<uint16_t>((value < 0 ? 0x8000U : 0U) |
                               static_cast<unsigned>(exponent + 15) << 10 | mantissa);
}

template <class T>
void put(Bytes& bytes, T value) {
  const auto* first = reinterpret_cast<const unsigned char*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

void put_number(Bytes& bytes, hvd_dtype dtype, int64_t value) {
  const auto real = static_cast<float>(value);
  uint32_t word = 0;
  std::memcpy(&word, &real, sizeof word);
  switch (dtype) {
    case HVD_UINT8:
    case HVD_INT8: put(bytes, static_cast<uint8_t>(value)); break;
    case HVD_UINT16:
    case HVD_INT16: put(bytes, static_cast<uint16_t>(value)); break;
    case HVD_INT32: put(bytes, static_cast<int32_t>(value)); break;
    case HVD_INT64: put(bytes, value); break;
    case HVD_FLOAT16: put(bytes, float16_bits(value)); break;
    case HVD_BFLOAT16:
      put(bytes, static_cast<uint16_t>(word >> 16));
      break;  // exact: 8 bits suffice for fills
    case HVD_FLOAT32: put(bytes, real); break;
    case HVD_FLOAT64: put(bytes, static_cast<double>(value)); break;
    default: broken("no fill for this dtype");
  }
}

Tensor read_tensor(const Json& json, hvd_dtype dtype) {
  Tensor tensor;
  tensor.dtype = json.contains("dtype") ? dtype_of(json.at("dtype")) : dtype;
  tensor.shape = json.at("shape").get<std::vector<int64_t>>();
  const size_t count = element_count(tensor.shape);
  if (json.contains("fill")) {
    const auto fill = json.at("fill").get<std::vector<int64_t>>();
    for (size_t i = 0; i < count; ++i) {
      put_number(tensor.data, tensor.dtype,
                 (fill.at(0) * static_cast<int64_t>(i) + fill.at(1)) % fill.at(2) + fill.at(3));
    }
  } else if (json.contains("hex")) {
    tensor.data = from_hex(json.at("hex"));
  }
  if (!json.contains("crc32") && tensor.data.size() != count * hvd_dtype_size(tensor.dtype)) {
    broken("contents do not fit the shape: " + json.dump());
  }
  return tensor;
}

Expectation read_expectation(const Json& json, hvd_dtype dtype) {
  Expectation expectation;
  expectation.tensor = read_tensor(json, dtype);
  expectation.ulp = json.value("ulp", 0);
  expectation.digest = json.contains("crc32");
  if (expectation.digest) expectation.crc32 = json.at("crc32").get<uint32_t>();
  expectation.bytes =
      element_count(expectation.tensor.shape) * hvd_dtype_size(expectation.tensor.dtype);
  return expectation;
}

// The tensors of one rank: one object, or a list of them.
std::vector<Json> tensors_of(const Json& json) {
  return json.is_array() ? json.get<std::vector<Json>>() : std::vector<Json>{json};
}

Part read_part(const Json& json, size_t rank) {
  Part part;
  Json options = json;
  if (json.contains("per_rank")) options.update(json.at("per_rank").at(rank));
  part.options.op = options.at("op");
  part.options.reduce = reduce_of(options.value("reduce", "sum"));
  part.options.root = options.value("root", 0);
  part.options.prescale = options.value("prescale", 1.0);
  part.options.postscale = options.value("postscale", 1.0);

  const hvd_dtype dtype = dtype_of(json.at("dtype"));
  for (const auto& joined : json.value("joined", std::vector<size_t>()))
    part.joins = part.joins || joined == rank;
  const Json& input = json.at("input").at(rank);
  part.member = !input.is_null() || part.joins;
  if (input.is_null()) return part;
  for (const Json& item : tensors_of(input)) part.input.push_back(read_tensor(item, dtype));
  if (json.contains("expect")) {
    for (const Json& item : tensors_of(json.at("expect").at(rank)))
      part.expect.push_back(read_expectation(item, dtype));
  }
  if (json.contains("splits") && !json.at("splits").at(rank).is_null()) {
    part.splits = json.at("splits").at(rank).get<std::vector<int64_t>>();
  }
  if (json.contains("expect_splits"))
    part.expect_splits = json.at("expect_splits").at(rank).get<std::vector<int64_t>>();
  return part;
}

Vector read_vector(const Json& json) {
  Vector vector;
  vector.name = json.at("name");
  vector.size = json.at("size");
  vector.grouped = json.value("grouped", false);
  vector.bitwise = json.value("bitwise", false);
  vector.any_joined = json.contains("joined");
  vector.set = json.value("set", std::vector<int32_t>());
  vector.expect_status = json.value("expect_status", "");
  vector.expect_message_has = json.value("expect_message_has", std::vector<std::string>());
  if (json.contains("expect") == json.contains("expect_status"))
    broken(vector.name + ": expects both or neither");
  for (size_t rank = 0; rank < static_cast<size_t>(vector.size); ++rank)
    vector.parts.push_back(read_part(json, rank));
  return vector;
}

uint32_t crc32(const unsigned char* data, size_t size) {
  static const auto* const kTable = [] {
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320U : 0U);
    }
    return table;
  }();
  uint32_t crc = ~0U;
  for (size_t i = 0; i < size; ++i) crc = crc >> 8 ^ kTable[(crc ^ data[i]) & 0xff];
  return ~crc;
}

// A floating element as a number on a line where neighbours differ by one; NaN is the limit of
// int64.
int64_t place_on_line(const unsigned char* element, int bits, int mantissa) {
  uint64_t pattern = 0;
  std::memcpy(&pattern, element, static_cast<size_t>(bits) / 8);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const uint64_t magnitude = pattern & (sign - 1);
  const uint64_t infinity = (sign - 1) >> mantissa << mantissa;
  if (magnitude > infinity) return std::numeric_limits<int64_t>::max();
  return (pattern & sign) != 0 ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

bool close(hvd_dtype dtype, const unsigned char* expected, const unsigned char* actual,
           int64_t ulp) {
  const size_t size = hvd_dtype_size(dtype);
  if (std::memcmp(expected, actual, size) == 0) return true;
  const int mantissa = dtype == HVD_FLOAT16    ? 10
                       : dtype == HVD_BFLOAT16 ? 7
                       : dtype == HVD_FLOAT32  ? 23
                       : dtype == HVD_FLOAT64  ? 52
                                               : 0;
  if (mantissa == 0) return false;
  const int64_t left = place_on_line(expected, static_cast<int>(size) * 8, mantissa);
  const int64_t right = place_on_line(actual, static_cast<int>(size) * 8, mantissa);
  const int64_t nan = std::numeric_limits<int64_t>::max();
  if (left == nan || right == nan) return left == right;
  if (ulp == 0) return false;  // -0 and 0 differ
  return left > right ? left - right <= ulp : right - left <= ulp;
}

std::string hex(const unsigned char* data, size_t size) {
  std::string text;
  char digits[4];
  for (size_t i = 0; i < size; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", data[i]);
    text += digits;
  }
  return text;
}

}  // namespace

size_t element_count(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t dimension : shape) count *= static_cast<size_t>(dimension);
  return count;
}

std::vector<Vector> read_vectors(const std::filesystem::path& path) {
  std::vector<Vector> vectors;
  try {
    std::ifstream stream(path);
    const Json whole = Json::parse(stream);
    for (const Json& json : whole.at("vectors")) vectors.push_back(read_vector(json));
  } catch (const std::exception& error) {
    broken(path.string() + ": " + error.what());
  }
  if (vectors.empty()) broken(path.string() + ": no vectors");
  return vectors;
}

std::string difference(const Expectation& expected, const hvd_tensor& actual, bool bitwise) {
  if (actual.dtype != expected.tensor.dtype)
    return std::string("dtype ") + hvd_dtype_name(actual.dtype);
  const std::vector<int64_t>& shape = expected.tensor.shape;
  if (static_cast<size_t>(actual.ndim) != shape.size())
    return "ndim " + std::to_string(actual.ndim);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (actual.shape[i] != shape[i])
      return "dimension " + std::to_string(i) + " is " + std::to_string(actual.shape[i]);
  }
  const auto* data = static_cast<const unsigned char*>(actual.data);
  if (expected.digest) {
    const uint32_t found = crc32(data, expected.bytes);
    return found == expected.crc32 ? ""
                                   : "crc32 " + std::to_string(found) + ", begins " + hex(data, 32);
  }
  const size_t size = hvd_dtype_size(actual.dtype);
  for (size_t at = 0; at < expected.bytes; at += size) {
    const unsigned char* wanted = expected.tensor.data.data() + at;
    const bool same = bitwise ? std::memcmp(wanted, data + at, size) == 0
                              : close(actual.dtype, wanted, data + at, expected.ulp);
    if (!same)
      return "element " + std::to_string(at / size) + " is " + hex(data + at, size) +
             ", expected " + hex(wanted, size);
  }
  return "";
}

}  // namespace hvd::conformance
