// SPDX-License-Identifier: Apache-2.0
// The protection of a context's connections: the job's secret, and how the secret is used.
#pragma once

#include <memory>

#include "base/options.h"
#include "base/status.h"
#include "secure/tls.h"

namespace hvd::secure {

struct Protection {
  std::shared_ptr<const Keyring> keyring;  // null: no secret is given
  Level level = Level::kAuth;
};

// Reads the secret that the options name. Two sources, or a secret that cannot be read, are errors.
Result<Protection> read_protection(const Options& options);

}  // namespace hvd::secure
