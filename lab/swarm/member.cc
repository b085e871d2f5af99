#include "lab/swarm/member.h"

namespace starling::lab {

void Counters::add(const training::PeerReport& report) {
  steps += report.steps;
  samples += report.samples;
  answered += report.answered;
  bytes_sent += report.bytes_sent;
  exchanges += report.exchanges;
  staleness += report.staleness;
}

}  // namespace starling::lab
