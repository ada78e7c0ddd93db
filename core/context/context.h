// SPDX-License-Identifier: Apache-2.0
// The composition root: reads the settings, meets the other ranks, puts fabric, backend and engine
// together. The only place that names concrete classes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/engine.h"
#include "observe/timeline.h"
#include "rendezvous/job_rendezvous.h"
#include "rendezvous/membership.h"

namespace hvd {

struct ContextRequest {
  rendezvous::JobRequest job;
  Duration timeout{0};  // 0: the option start_timeout
  std::vector<std::pair<std::string, std::string>> options;
  Logger::Sink log;
};

struct Context {
  std::shared_ptr<engine::Engine> engine;
  std::shared_ptr<rendezvous::Membership> membership;  // empty in a job of fixed members
  std::shared_ptr<observe::Timeline> timeline;
};

Result<Context> open_context(ContextRequest request);

}  // namespace hvd
