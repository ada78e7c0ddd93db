// SPDX-License-Identifier: Apache-2.0
// Where this rank is and how it meets the others, from what the caller gave, what the environment
// says, and what the launcher offers.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/options.h"
#include "rendezvous/bootstrap.h"
#include "rendezvous/store.h"
#include "secure/protection.h"

namespace hvd::rendezvous {

// What the caller says about its place, and where a launcher's word is found.
struct JobRequest {
  int rank = -1;  // -1: from the environment, or in order of arrival
  int size = 0;   // 0: from the environment
  std::string url = "env:";
  std::unique_ptr<Store> store;  // instead of a URL
  Environment environment;
};

struct JobRendezvous {
  int rank = 0;
  int size = 1;
  std::string job = "job";
  std::shared_ptr<Store> store;
  bool in_process = false;
  secure::Protection protection;  // as given, or with the secret that the launcher passed on
  std::string launcher;           // a name for people; empty if there is no launcher
  std::string where;              // an address for people: "tcp://10.0.0.1:7777/job"
};

// Takes the request's store. Collective: rank 0 serves the store and the others connect to it.
Result<JobRendezvous> find_rendezvous(JobRequest& request, const Options& options,
                                      secure::Protection protection, Time deadline,
                                      std::shared_ptr<const Logger> log,
                                      const MpiBroadcast& broadcast_by_mpi);

}  // namespace hvd::rendezvous
