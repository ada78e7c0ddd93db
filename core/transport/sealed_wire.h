// SPDX-License-Identifier: Apache-2.0
// A connection whose bytes are readable on the way, but cannot be altered there unnoticed.
#pragma once

#include <memory>

#include "base/fd.h"
#include "secure/seal.h"
#include "transport/wire.h"

namespace hvd::transport {

// Bytes travel in records of at most kSealedRecord; each is delivered once its checksum has been
// found right. Bytes are sent as they were when send() took the first of them, so they must not
// change until all of them are taken.
inline constexpr size_t kSealedRecord = size_t{64} << 10;

std::unique_ptr<Wire> sealed_wire(Fd socket, secure::Seals seals);

}  // namespace hvd::transport
