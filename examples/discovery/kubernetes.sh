#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pods of a StatefulSet with sshd that are ready, four slots each. A pod that is about to go is not ready any more, so its ranks leave.
kubectl get pods --selector app=trainer --output \
  jsonpath='{range .items[?(@.status.containerStatuses[0].ready==true)]}{.status.podIP}:4{"\n"}{end}'
