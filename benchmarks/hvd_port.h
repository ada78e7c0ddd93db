// SPDX-License-Identifier: Apache-2.0
// hvd_port.h: the operations of cases.h through the C ABI of libhvd.
#ifndef HVD_BENCHMARKS_HVD_PORT_H
#define HVD_BENCHMARKS_HVD_PORT_H

#include <hvd/hvd.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cases.h"

namespace bench {

// One rank of a job. Every failing call ends the process with the library's message: a benchmark
// has nothing to recover. Names are made once per size or set and used again in every turn, as the
// parameters of a network are.
class HvdPort {
 public:
  // Joins the job at `rendezvous`, a URL as in hvd_init_options.
  HvdPort(const char* program, int rank, int size, const std::string& rendezvous);
  ~HvdPort();
  HvdPort(const HvdPort&) = delete;
  HvdPort& operator=(const HvdPort&) = delete;

  void allreduce(float* data, size_t count);
  void allreduce_set(const bench_tensor_set& set, float* const* tensors);
  void collective(bench_collective kind, const float* send, float* receive, size_t count);

  // This object as bench_run_cases wants it; `this` must outlive the result.
  bench_port port();

 private:
  hvd_handle* submit_allreduce(const std::string& name, float* data, int64_t count);
  void finish(hvd_handle* handle);
  void require(hvd_status status, const hvd_error& error) const;
  const std::string& name_of(const char* kind, size_t count);
  const std::vector<std::string>& names_of(const bench_tensor_set& set);

  const char* program_;
  int rank_;
  int size_;
  hvd_context* context_ = nullptr;
  std::map<std::pair<std::string_view, size_t>, std::string> names_;
  std::map<std::string_view, std::vector<std::string>> set_names_;
  std::vector<hvd_handle*> handles_;
};

}  // namespace bench

#endif
