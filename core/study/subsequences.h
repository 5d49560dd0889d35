// The ranking of Felgentreff, Perscheid and Hirschfeld ("Implementing record and refinement for debugging
// timing-dependent communication", Science of Computer Programming 134, 2017): what is common to the schedules of all
// failing runs and not to those of all passing ones, and the other way round, each by its longest common subsequence.
// It is here to be compared with compare(): it names events, where the cause is an order.
//
// The printed formula of the weight cannot be meant as it stands: it is at least 17, and infinite for an event that
// half of the runs have. It is read as sqrt(2 * |1/2 - P/N|), where P of the N runs that have the event passed, times a
// factor that falls linearly from 1 for the first difference to 0 behind the last, as later differences tend to follow
// from earlier ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/study/naming.h"
#include "core/study/score.h"

namespace friday {

struct Anomaly {
  uint32_t name = 0;        // of a shape
  size_t occurrence = 0;    // which one with this name in its run, from 1
  bool of_failing = false;  // common to the failing runs; else to the passing ones
  Split split{};            // the runs that have the event, and those that have not
  double weight = 0;
};

// The heaviest first; of equal ones the earliest.
std::vector<Anomaly> anomalies_of(const Naming& naming);

}  // namespace friday
