// SPDX-License-Identifier: Apache-2.0
// Where this rank is and how it meets the others, from what the caller gave, what the environment says, and what the launcher
// offers.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "context/context.h"
#include "context/protection.h"
#include "rendezvous/store.h"

namespace hvd {

struct JobRendezvous {
  int rank = 0;
  int size = 1;
  std::string job = "job";
  std::shared_ptr<rendezvous::Store> store;
  bool in_process = false;
  Protection protection;  // as given, or with the secret that the launcher passed on
  std::string launcher;   // a name for people; empty if there is no launcher
  std::string where;      // an address for people: "tcp://10.0.0.1:7777/job"
};

// Takes the request's store. Collective: rank 0 serves the store and the others connect to it.
Result<JobRendezvous> find_rendezvous(ContextRequest& request, const Options& options, Protection protection, Time deadline,
                                      std::shared_ptr<const Logger> log);

}  // namespace hvd
