// SPDX-License-Identifier: Apache-2.0
// One rank's way into the library, as the vectors use it: hvd.h itself, or a binding on it. A
// runner links one.
#pragma once

#include <hvd/hvd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vectors.h"

namespace hvd::conformance {

// How a context is opened.
struct Opening {
  std::string rendezvous;
  int32_t rank = -1;
  int32_t size = 0;
  int64_t timeout_ns = 0;
  std::vector<std::pair<std::string, std::string>> options;
};

// One operation of a rank.
struct Request {
  std::string name;
  Options options;
  bool grouped = false;
  bool in_set = false;  // on the set that make_set() has made
  int64_t timeout_ns = 0;
  std::vector<hvd_tensor> inputs;
  std::vector<hvd_tensor> outputs;  // none: the library allocates
  const std::vector<int64_t>* splits = nullptr;
};

// How it ended.
struct Outcome {
  hvd_status status = HVD_OK;
  std::string message;
  std::vector<hvd_tensor> results;
  std::vector<int64_t> received_splits;  // alltoall
  int32_t last_joined = -1;              // join
  std::shared_ptr<void> owner;           // of what the results point to
};

// Functions that return a text return an empty one on success, otherwise the library's message.
class Port {
 public:
  virtual ~Port() = default;
  virtual Outcome run(const Request& request) = 0;
  virtual std::string make_set(const std::vector<int32_t>& ranks) = 0;
  virtual std::string end_set() = 0;
  virtual std::string shut_down(int64_t timeout_ns) = 0;
};

// Null if the context cannot be opened; `message` says why.
std::unique_ptr<Port> open_port(const Opening& opening, std::string* message);

}  // namespace hvd::conformance
