// SPDX-License-Identifier: Apache-2.0
// Graphs of the stand-in: what a stream is given while it captures, to be run on a stream later, as
// often as wanted.
#include "fake_cuda_world.h"

using namespace fake_cuda;

struct CUgraph_st {
  std::vector<Work> work;
};

struct CUgraphExec_st {
  std::vector<Work> work;
};

namespace fake_cuda {

void note(CUgraph_st* graph, Work work) { graph->work.push_back(std::move(work)); }

}  // namespace fake_cuda

extern "C" {

int cuStreamBeginCapture_v2(CUstream_st* stream, int mode) {
  const Lock lock(mutex);
  if (const int error = enter("cuStreamBeginCapture", known_as(stream)); error != 0) return error;
  // The driver refuses the default stream, and one that captures already.
  if (stream == nullptr || world().capturing.count(stream) != 0) return kCaptureUnsupported;
  world().capturing[stream] = {mode, std::this_thread::get_id(), new CUgraph_st};
  ++world().graphs;
  return 0;
}

int cuStreamEndCapture(CUstream_st* stream, CUgraph_st** graph) {
  const Lock lock(mutex);
  if (const int error = enter("cuStreamEndCapture", known_as(stream)); error != 0) return error;
  const auto found = world().capturing.find(stream);
  if (found == world().capturing.end()) return kNoCapture;
  const Capture capture = found->second;
  if (capture.mode != kRelaxed && capture.by != std::this_thread::get_id()) {
    world().faults.insert("cuStreamEndCapture by another thread");
    return kNoCapture;
  }
  *graph = capture.graph;
  world().capturing.erase(found);
  return 0;
}

int cuGraphInstantiateWithFlags(CUgraphExec_st** made, CUgraph_st* graph, unsigned long long) {
  const Lock lock(mutex);
  if (const int error = enter("cuGraphInstantiate"); error != 0) return error;
  *made = new CUgraphExec_st{graph->work};
  ++world().graphs;
  return 0;
}

int cuGraphLaunch(CUgraphExec_st* graph, CUstream_st* stream) {
  const Lock lock(mutex);
  if (const int error = enter("cuGraphLaunch", known_as(stream)); error != 0) return error;
  if (const int error = not_captured("cuGraphLaunch", stream); error != 0) return error;
  for (const Work& work : graph->work) put(stream_of(stream), work);
  return 0;
}

int cuGraphExecDestroy(CUgraphExec_st* graph) {  // what has been launched goes on
  const Lock lock(mutex);
  if (const int error = enter("cuGraphExecDestroy"); error != 0) return error;
  delete graph;
  --world().graphs;
  return 0;
}

int cuGraphDestroy(CUgraph_st* graph) {  // so does what was made of it
  const Lock lock(mutex);
  if (const int error = enter("cuGraphDestroy"); error != 0) return error;
  delete graph;
  --world().graphs;
  return 0;
}

}  // extern "C"
