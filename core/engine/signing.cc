// SPDX-License-Identifier: Apache-2.0
#include "engine/signing.h"

#include "engine/engine.h"

namespace hvd::engine {

namespace {

int64_t eager_bytes(const Operation& operation) {
  const EagerLimit& limit = operation.set->eager;
  return operation.engine->idle() ? limit.alone : limit.among_others;
}

}  // namespace

void sign(Operation& operation) {
  operation.signature.reserve(64);
  negotiation::SignatureWriter writer(
      operation.signature, operation.kind, operation.op, operation.root, operation.prescale,
      operation.postscale, operation.tensors.size(),
      operation.staging ? negotiation::Place::kCuda : negotiation::Place::kCpu);
  size_t bytes = 0;
  bool one_dtype = true;
  for (const OpTensor& tensor : operation.tensors) {
    writer.tensor(tensor.dtype, tensor.dims);
    bytes += tensor.count() * dtype_size(tensor.dtype);
    one_dtype = one_dtype && tensor.dtype == operation.tensors[0].dtype;
  }
  operation.print = fingerprint(operation.signature, fingerprint(as_byte_span(operation.key)).low);
  if (!traits_of(operation.kind).fusible || operation.op == ReduceOp::kAdasum || !one_dtype ||
      static_cast<int64_t>(bytes) > eager_bytes(operation) || operation.set->size() == 1 ||
      operation.staging) {
    return;
  }
  operation.eager = true;
  if (operation.tensors.size() == 1) {
    operation.payload = {static_cast<const std::byte*>(operation.tensors[0].in), bytes};
    return;
  }
  for (const OpTensor& tensor : operation.tensors) {
    const auto* in = static_cast<const std::byte*>(tensor.in);
    operation.gathered_payload.insert(operation.gathered_payload.end(), in,
                                      in + tensor.count() * dtype_size(tensor.dtype));
  }
  operation.payload = operation.gathered_payload;
}

}  // namespace hvd::engine
