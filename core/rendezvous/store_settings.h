// SPDX-License-Identifier: Apache-2.0
// Who opens a store, and how its connections are protected.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "secure/tls.h"

namespace hvd::rendezvous {

struct StoreSettings {
  int rank = -1;  // -1: not known yet
  int size = 1;
  Time deadline = kNever;
  std::shared_ptr<const secure::Keyring> keyring;  // null: no secret is given
  secure::Level security = secure::Level::kAuth;
  // names, comma-separated, where the server's own name says too little; empty: all
  std::string interfaces;
  bool one_host = false;                   // all ranks are known to be on this machine
  std::shared_ptr<const Logger> log = {};  // null: silent
};

}  // namespace hvd::rendezvous
