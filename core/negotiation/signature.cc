// SPDX-License-Identifier: Apache-2.0
#include "negotiation/signature.h"

#include <cstdio>
#include <functional>

namespace hvd::negotiation {

uint64_t element_count(std::span<const int64_t> dims) {
  uint64_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
  return count;
}

SignatureWriter::SignatureWriter(Bytes& out, OpKind kind, ReduceOp op, int32_t root,
                                 double prescale, double postscale, size_t tensor_count,
                                 Place place)
    : writer_(out), free_first_(traits_of(kind).ragged) {
  writer_.put(static_cast<uint8_t>(kind));
  writer_.put(static_cast<uint8_t>(op));
  writer_.put(static_cast<uint8_t>(place));
  writer_.put(static_cast<uint16_t>(tensor_count));
  writer_.put(root);
  writer_.put(prescale);
  writer_.put(postscale);
}

void SignatureWriter::tensor(DType dtype, std::span<const int64_t> dims) {
  writer_.put(static_cast<uint8_t>(dtype));
  writer_.put(static_cast<uint8_t>(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i)
    writer_.put(i == 0 && free_first_ ? int64_t{-1} : dims[i]);
}

void SignatureWriter::numbers(std::span<const int32_t> values) {
  for (const int32_t value : values) writer_.put(value);
}

void encode(const Signature& signature, Bytes& out) {
  SignatureWriter writer(out, signature.kind, signature.op, signature.root, signature.prescale,
                         signature.postscale, signature.tensors.size(), signature.place);
  for (const TensorShape& tensor : signature.tensors) writer.tensor(tensor.dtype, tensor.dims);
  writer.numbers(signature.numbers);
}

namespace {

// Whether the bytes of the tensor can be computed: no negative dimension, except a free first one,
// and no overflow.
bool countable(const TensorShape& tensor, bool free_first) {
  uint64_t bytes = dtype_size(tensor.dtype);
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    const int64_t dim = tensor.dims[d];
    if (d == 0 && free_first && dim == -1) continue;
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) return false;
    if (bytes > (uint64_t{1} << 62)) return false;
  }
  return true;
}

}  // namespace

bool decode(std::span<const std::byte> bytes, Signature* out) {
  ByteReader reader(bytes);
  const auto kind = reader.get<uint8_t>();
  const auto op = reader.get<uint8_t>();
  const auto place = reader.get<uint8_t>();
  const auto tensor_count = reader.get<uint16_t>();
  if (kind >= kOpKinds || op > static_cast<uint8_t>(ReduceOp::kProduct)) return false;
  if (place > static_cast<uint8_t>(Place::kCuda)) return false;
  out->kind = static_cast<OpKind>(kind);
  out->op = static_cast<ReduceOp>(op);
  out->place = static_cast<Place>(place);
  out->root = reader.get<int32_t>();
  out->prescale = reader.get<double>();
  out->postscale = reader.get<double>();
  out->tensors.clear();
  for (unsigned i = 0; i < tensor_count && reader.ok(); ++i) {
    const auto dtype = reader.get<uint8_t>();
    const auto ndim = reader.get<uint8_t>();
    if (!dtype_valid(dtype) || ndim > kMaxDimensions) return false;
    TensorShape& tensor = out->tensors.emplace_back();
    tensor.dtype = static_cast<DType>(dtype);
    for (int d = 0; d < ndim; ++d) tensor.dims.push_back(reader.get<int64_t>());
    if (!countable(tensor, traits_of(out->kind).ragged)) return false;
  }
  out->numbers.clear();
  while (reader.ok() && !reader.at_end()) out->numbers.push_back(reader.get<int32_t>());
  return reader.ok();
}

std::string shape_text(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += dims[i] == -1 ? "*" : std::to_string(dims[i]);
  }
  return text + "]";
}

namespace {

std::string scale_text(const Signature& signature) {
  char text[80];
  std::snprintf(text, sizeof text, "prescale %g postscale %g", signature.prescale,
                signature.postscale);
  return text;
}

std::string numbers_text(const Signature& signature) {
  std::string text = "{";
  for (size_t i = 0; i < signature.numbers.size(); ++i) {
    text += (i > 0 ? " " : "") + std::to_string(signature.numbers[i]);
  }
  return text + "}";
}

using Describe = std::function<std::string(const Signature&)>;

// Empty if all texts are equal. At most 16 ranks are written out: a line must stay readable.
std::string differing(const char* aspect, std::span<const Signature> signatures,
                      std::span<const int> who, const Describe& describe) {
  bool differs = false;
  const std::string first = describe(signatures[0]);
  std::string text = std::string(aspect) + " differs: ";
  for (size_t i = 0; i < signatures.size(); ++i) {
    const std::string said = describe(signatures[i]);
    differs = differs || said != first;
    if (i >= 16 && said == first) continue;
    if (i > 0) text += ", ";
    text += "rank " + std::to_string(who[i]) + " " + said;
    if (differs && i >= 16) break;
  }
  return differs ? text : std::string();
}

std::string tensor_difference(size_t index, std::span<const Signature> signatures,
                              std::span<const int> who) {
  const bool many = signatures[0].tensors.size() > 1;
  const std::string of = many ? " of tensor " + std::to_string(index) : "";
  std::string text = differing(("dtype" + of).c_str(), signatures, who, [&](const Signature& s) {
    return std::string(dtype_name(s.tensors[index].dtype));
  });
  if (!text.empty()) return text;
  return differing(("shape" + of).c_str(), signatures, who,
                   [&](const Signature& s) { return shape_text(s.tensors[index].dims); });
}

}  // namespace

std::string explain_difference(std::span<const Signature> signatures, std::span<const int> who) {
  std::string text = differing("operation", signatures, who, [](const Signature& s) {
    return std::string(op_kind_name(s.kind));
  });
  if (!text.empty()) return text;
  text = differing("device", signatures, who, [](const Signature& s) {
    return std::string(s.place == Place::kCuda ? "cuda" : "cpu");
  });
  if (!text.empty()) return text;
  text = differing("number of tensors", signatures, who,
                   [](const Signature& s) { return std::to_string(s.tensors.size()); });
  if (!text.empty()) return text;
  for (size_t i = 0; i < signatures[0].tensors.size(); ++i) {
    text = tensor_difference(i, signatures, who);
    if (!text.empty()) return text;
  }
  text = differing("reduce op", signatures, who,
                   [](const Signature& s) { return std::string(reduce_op_name(s.op)); });
  if (!text.empty()) return text;
  text =
      differing("root", signatures, who, [](const Signature& s) { return std::to_string(s.root); });
  if (!text.empty()) return text;
  text = differing("scale", signatures, who, scale_text);
  if (!text.empty()) return text;
  if (signatures[0].kind == OpKind::kConfirmSet) {
    return differing("outcome", signatures, who, [](const Signature& s) {
      return std::string(s.numbers.size() > 1 && s.numbers[1] == 0 ? "ok" : "failed to open it");
    });
  }
  return differing("ranks", signatures, who, numbers_text);
}

uint64_t signature_bytes(const Signature& signature) {
  uint64_t bytes = 0;
  for (const TensorShape& tensor : signature.tensors)
    bytes += element_count(tensor.dims) * dtype_size(tensor.dtype);
  return bytes;
}

}  // namespace hvd::negotiation
