// SPDX-License-Identifier: Apache-2.0
// The protection of this context's connections: the job's secret, and how the secret is used.
#pragma once

#include <memory>

#include "base/options.h"
#include "base/status.h"
#include "secure/tls.h"

namespace hvd {

struct Protection {
  std::shared_ptr<const secure::Keyring> keyring;  // null: no secret is given
  secure::Level level = secure::Level::kAuth;
};

// Reads the secret that the options name. Two sources, or a secret that cannot be read, are errors.
Result<Protection> read_protection(const Options& options);

}  // namespace hvd
