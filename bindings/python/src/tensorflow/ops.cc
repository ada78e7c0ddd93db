// SPDX-License-Identifier: Apache-2.0
#include "ops.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective.h"
#include "facts.h"
#include "grouped_results.h"
#include "kinds.h"
#include "shapes.h"
#include "tf_api.h"

namespace hvd::tensorflow {
namespace {

constexpr const char* kReducible =
    "{uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, double, "
    "complex64, complex128}";

// What the engine moves. The language of attributes has no word for float8, so InFlightOp refuses
// the types that the engine lacks.
constexpr const char* kMovable = "type";

struct Definition {
  const char* name;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;
  ShapeFunction shapes;
  CreateFunction create;
  // Those of a kernel that waits for nothing; without them it is a collective's.
  ComputeFunction compute = nullptr;
  DeleteFunction remove = nullptr;
  bool stateful = true;
};

template <Kind kind, bool grouped>
void* create_collective(TF_OpKernelConstruction* construction) {
  Status status;
  Attributes attributes(kind, grouped, construction, status);
  if (status.ok()) return new Collective(std::move(attributes));
  tf().OpKernelConstruction_Failure(construction, status.get());
  return nullptr;
}

void compute_collective(void* kernel, TF_OpKernelContext* context,
                        TF_AsyncOpKernelDoneCallback* done) {
  static_cast<Collective*>(kernel)->compute(context, done);
}

void delete_collective(void* kernel) { delete static_cast<Collective*>(kernel); }

std::vector<std::string> attributes_of(const std::string& types, bool grouped,
                                       const std::vector<std::string>& more) {
  std::vector<std::string> all;
  if (!types.empty()) all.push_back(grouped ? "T: list(" + types + ") >= 1" : "T: " + types);
  all.insert(all.end(), more.begin(), more.end());
  for (const char* common : {"ignore_name_scope: bool = false", "process_set_id: int = 0",
                             "tensor_name: string = ''", "use_node_name: bool = true"}) {
    all.emplace_back(common);
  }
  return all;
}

template <Kind kind, bool grouped>
Definition over_tensors(const char* name, const char* output, const std::string& types,
                        ShapeFunction shapes, const std::vector<std::string>& more) {
  return {name,
          {grouped ? "tensors: T" : "tensor: T"},
          {std::string(output) + ": T"},
          attributes_of(types, grouped, more),
          shapes,
          &create_collective<kind, grouped>};
}

Definition fact(const char* name, std::vector<std::string> attributes, CreateFunction create) {
  return {name,          {},     {"value: int32"}, std::move(attributes),
          &scalar_shape, create, &compute_fact,    &delete_fact};
}

std::vector<Definition> definitions() {
  const std::vector<std::string> reduction = {"reduce_op: int", "prescale_factor: float = 1.0",
                                              "postscale_factor: float = 1.0",
                                              "exact_factors: string = ''"};
  std::vector<Definition> all = {
      over_tensors<Kind::kAllreduce, false>("HorovodAllreduce", "sum", kReducible, &same_shapes,
                                            reduction),
      over_tensors<Kind::kAllreduce, true>("HorovodGroupedAllreduce", "sum", kReducible,
                                           &same_shapes, reduction),
      over_tensors<Kind::kAllgather, false>("HorovodAllgather", "output", kMovable, &unknown_rows,
                                            {}),
      over_tensors<Kind::kAllgather, true>("HorovodGroupedAllgather", "output", kMovable,
                                           &unknown_rows, {}),
      over_tensors<Kind::kBroadcast, false>("HorovodBroadcast", "output", kMovable, &same_shapes,
                                            {"root_rank: int"}),
      over_tensors<Kind::kGather, false>("HorovodGather", "output", kMovable, &unknown_rows,
                                         {"root_rank: int"}),
      over_tensors<Kind::kReducescatter, false>("HorovodReducescatter", "output", kReducible,
                                                &unknown_rows, reduction),
      over_tensors<Kind::kReducescatter, true>("HorovodGroupedReducescatter", "output", kReducible,
                                               &unknown_rows, reduction),
      over_tensors<Kind::kAlltoall, false>("HorovodAlltoall", "output", kMovable, &rows_and_vector,
                                           {}),
      {"HorovodJoin",
       {},
       {"last_joined_rank: int32"},
       {},
       &scalar_shape,
       &create_collective<Kind::kJoin, false>},
      {"HorovodBarrier",
       {},
       {},
       attributes_of("", false, {}),
       &no_shape,
       &create_collective<Kind::kBarrier, false>},
      fact("HorovodSize", {"process_set_id: int = 0"}, &create_fact<Fact::kSize>),
      fact("HorovodProcessSetIncluded", {"process_set_id: int = 0"}, &create_fact<Fact::kIncluded>),
      fact("HorovodLocalSize", {}, &create_fact<Fact::kLocalSize>),
      fact("HorovodRank", {}, &create_fact<Fact::kRank>),
      fact("HorovodLocalRank", {}, &create_fact<Fact::kLocalRank>),
      {"HorovodGroupedResults",
       {"tensors: T"},
       {"results: T"},
       {"T: list(type) >= 1"},
       &same_shapes,
       &create_grouped_results,
       &compute_grouped_results,
       &delete_grouped_results,
       false},
  };
  for (Definition& one : all) {
    if (std::string(one.name) != "HorovodAlltoall") continue;
    one.inputs.emplace_back("splits: int32");
    one.outputs.emplace_back("received_splits: int32");
  }
  return all;
}

std::string define(const Definition& one) {
  TF_OpDefinitionBuilder* builder = tf().NewOpDefinitionBuilder(one.name);
  for (const std::string& attribute : one.attributes)
    tf().OpDefinitionBuilderAddAttr(builder, attribute.c_str());
  for (const std::string& input : one.inputs)
    tf().OpDefinitionBuilderAddInput(builder, input.c_str());
  for (const std::string& output : one.outputs)
    tf().OpDefinitionBuilderAddOutput(builder, output.c_str());
  // Otherwise TensorFlow would run nodes on constants once, when it optimises the graph, each
  // waiting for the other ranks before the next begins, and would join nodes with equal inputs.
  tf().OpDefinitionBuilderSetIsStateful(builder, one.stateful);
  tf().OpDefinitionBuilderSetShapeInferenceFunction(builder, one.shapes);
  const Status status;
  tf().RegisterOpDefinition(builder, status.get());
  return status.ok() ? "" : status.message();
}

std::string add_kernel(const Definition& one, const char* device) {
  TF_KernelBuilder* builder =
      one.compute == nullptr
          ? tf().NewAsyncKernelBuilder(one.name, device, one.create, &compute_collective,
                                       &delete_collective)
          : tf().NewKernelBuilder(one.name, device, one.create, one.compute, one.remove);
  // The engine works on CPU memory; TensorFlow copies what is on a device, where one is there.
  if (std::string(device) != "CPU") {
    for (const auto* arguments : {&one.inputs, &one.outputs}) {
      for (const std::string& argument : *arguments) {
        tf().KernelBuilder_HostMemory(builder, argument.substr(0, argument.find(':')).c_str());
      }
    }
  }
  const Status status;
  tf().RegisterKernelBuilder((std::string(one.name) + device).c_str(), builder, status.get());
  return status.ok() ? "" : status.message();
}

}  // namespace

std::string register_ops() {
  for (const Definition& one : definitions()) {
    std::string problem = define(one);
    for (const char* device : {"CPU", "GPU"}) {
      if (problem.empty()) problem = add_kernel(one, device);
    }
    if (!problem.empty()) return std::string(one.name) + ": " + problem;
  }
  return "";
}

}  // namespace hvd::tensorflow
