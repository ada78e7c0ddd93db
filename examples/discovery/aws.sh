#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Running machines of an auto-scaling group of AWS, eight slots each.
aws ec2 describe-instances --output text --query 'Reservations[].Instances[].PrivateDnsName' \
  --filters Name=tag:aws:autoscaling:groupName,Values=trainers Name=instance-state-name,Values=running |
  tr '\t' '\n' | sed 's/$/:8/'
