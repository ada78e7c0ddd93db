// SPDX-License-Identifier: Apache-2.0
// The kernel of an operation of the engine: asynchronous, so that no thread of TensorFlow waits for
// other ranks.
#ifndef HVD_PYTHON_TENSORFLOW_COLLECTIVE_H
#define HVD_PYTHON_TENSORFLOW_COLLECTIVE_H

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "hvd/hvd.h"
#include "kinds.h"
#include "tf_api.h"

namespace hvd::tensorflow {

class InFlightOp;

// What a node of the graph says.
struct Attributes {
  Attributes(Kind kind, bool grouped, TF_OpKernelConstruction* construction, Status& status);

  Kind kind;
  bool grouped;
  std::string name;  // "": unnamed, the engine matches by order
  hvd_reduce_op reduce_op = HVD_SUM;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t root = 0;
  int32_t process_set = 0;

 private:
  void read_name(TF_OpKernelConstruction* construction, Status& status);
  void read_reduction(TF_OpKernelConstruction* construction, Status& status);
};

// One node. Runs of a named node follow one another, because the engine takes a name once at a
// time; a loop can start the next iteration before this one has ended.
class Collective {
 public:
  explicit Collective(Attributes attributes);
  ~Collective();

  const Attributes& attributes() const { return attributes_; }
  void compute(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);
  // The op has ended and has let go of everything.
  void next();

 private:
  const Attributes attributes_;
  std::mutex mutex_;
  bool busy_ = false;
  std::deque<std::unique_ptr<InFlightOp>> waiting_;
};

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_COLLECTIVE_H
