// SPDX-License-Identifier: Apache-2.0
// The context that operations of the graph use: the one of horovod.common.basics, from init to
// shutdown.
#ifndef HVD_PYTHON_TENSORFLOW_SESSION_H
#define HVD_PYTHON_TENSORFLOW_SESSION_H

#include <shared_mutex>

#include "hvd/hvd.h"

namespace hvd::tensorflow {

// While one of these lives the context is not withdrawn. Short: from before a submit call to after
// it.
class Session {
 public:
  Session();
  // NULL before init and after shutdown.
  hvd_context* context() const;

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

// Operations use this context from now on; NULL: they fail.
void publish(hvd_context* context);

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_SESSION_H
