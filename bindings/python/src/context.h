// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hvd/hvd.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "burst.h"
#include "log.h"
#include "operation.h"

namespace hvd::python {

// What Python passes to one submit call; see horovod/_native/__init__.py.
struct Submission {
  int kind;
  bool grouped;
  pybind11::handle inputs;
  pybind11::handle outputs;
  pybind11::handle name;
  uintptr_t set;
  hvd_reduce_op reduce_op;
  int32_t root;
  double prescale;
  double postscale;
  pybind11::handle splits;
};

// One hvd_context. Calls that can block release the GIL; submitting does not, because taking it
// back can cost several milliseconds when another Python thread computes.
class Context {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;

  Context(int32_t rank, int32_t size, pybind11::object rendezvous, int64_t timeout_ns,
          const Options& options, pybind11::object log);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { free(); }

  // Where the hvd_context is, for extensions of frameworks that call the library themselves.
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(context_); }

  void free();
  void shutdown(int64_t timeout_ns);
  void status();
  std::tuple<int, int, int, int, int, int, bool> topology();
  std::tuple<uint32_t, int64_t, bool> membership();
  void leave();

  uintptr_t set_create(const std::vector<int32_t>& ranks);
  uintptr_t set_find(int32_t id);
  std::vector<int32_t> set_ids();
  std::vector<int32_t> set_ranks(uintptr_t set);
  void set_destroy(uintptr_t set);
  void set_free(uintptr_t set);
  int32_t set_id(uintptr_t set);

  std::string option_get(const std::string& name);
  void option_set(const std::string& name, const std::string& value);
  std::vector<std::tuple<std::string, std::string, double>> metrics();
  pybind11::list histograms();
  pybind11::list records(uint64_t after);
  std::vector<int64_t> record_arrivals(uintptr_t set, uint64_t use);
  void timeline_start(const std::string& path, bool mark_cycles);
  void timeline_stop();

  int32_t completions_fd();
  uintptr_t completions_pop();

  std::unique_ptr<Prepared> prepare(std::string name, Prepared::Described tensors, uintptr_t set,
                                    hvd_reduce_op reduce_op, double prescale,
                                    double postscale) const;
  static std::unique_ptr<Burst> start_burst(pybind11::object self, pybind11::list prepared,
                                            const std::vector<uintptr_t>& addresses,
                                            pybind11::object keep);
  // A Python Operation.
  static pybind11::object submit(pybind11::object self, const Submission& submission,
                                 pybind11::object keep);
  // The same for the arrays themselves, `inputs` and `outputs`; None if the library cannot take
  // them as they are.
  static pybind11::object submit_array(pybind11::object self, const Submission& submission);

 private:
  // Adds the stream of the tensors to the options.
  hvd_status start(const Submission& submission, hvd_op_options& options, hvd_handle** handle,
                   hvd_error* error);
  // Calls `starting` with the options, a place for the handle, and one for the error. A Python
  // Operation.
  template <class Starting>
  static pybind11::object submitted(pybind11::object self, const Submission& submission,
                                    pybind11::object keep, Starting&& starting);

  hvd_context* context_ = nullptr;
  std::unique_ptr<LogSettings> log_;
  bool queueing_ = false;  // completions_fd was called
};

}  // namespace hvd::python
