"""Programs of MPI, four processes that wait for each other by spinning on shared memory, on two processors or fewer: with messages, and
with one-sided transfers into windows. Recorded under MPICH and OpenMPI, each in bounded time, and verified."""

import re
import subprocess

import pytest
from programs import need

pytestmark = [pytest.mark.full, pytest.mark.limit(240)]

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
#define check(what) ((what) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #what), (void)MPI_Abort(MPI_COMM_WORLD, 1)))

static void messages(void) {
  enum { kMany = 1 << 18 };  // more than is copied through shared memory
  const int before = (rank + size - 1) % size, behind = (rank + 1) % size;
  int *many = malloc(kMany * sizeof(int)), sum, seen;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < kMany; i++) many[i] = rank * 1000 + round;
    MPI_Sendrecv_replace(many, round % 4 ? 1 : kMany, MPI_INT, behind, 0, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(many[0] == before * 1000 + round && many[kMany - 1] == (round % 4 ? rank : before) * 1000 + round);
    if (rank == 0) MPI_Send(&round, 1, MPI_INT, behind, 1, MPI_COMM_WORLD);
    MPI_Recv(&seen, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank) MPI_Send(&seen, 1, MPI_INT, behind, 1, MPI_COMM_WORLD);
    MPI_Allreduce(&many[0], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(seen == round && sum == 6000 + size * round);
  }
}

// All others send to rank 0, which does not know who will be next: asked for with and without waiting, taken by tests.
static void questions(void) {
  for (int round = 0; round < 20; round++) {
    int seen = 0, sum = 0, is_there = 0;
    MPI_Status status;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 2, &seen, 1, MPI_INT, (rank + size - 1) % size, 2, MPI_COMM_WORLD, &status);
    check(seen == (rank + size - 1) % size);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(&seen, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &requests[1]);
    while (!is_there) {
      if (round % 2) MPI_Testall(2, requests, &is_there, statuses);
      else if (MPI_Test(&requests[0], &is_there, &status), is_there) MPI_Wait(&requests[1], &status);
    }
    check(seen == (rank + 1) % size);
    if (rank) MPI_Ssend(&rank, 1, MPI_INT, 0, 10 + round, MPI_COMM_WORLD);
    for (int from = 1; !rank && from < size; from++) {
      if (round % 2) MPI_Probe(MPI_ANY_SOURCE, 10 + round, MPI_COMM_WORLD, &status);
      else for (is_there = 0; !is_there;) MPI_Iprobe(MPI_ANY_SOURCE, 10 + round, MPI_COMM_WORLD, &is_there, &status);
      MPI_Recv(&seen, 1, MPI_INT, status.MPI_SOURCE, 10 + round, MPI_COMM_WORLD, &status);
      sum += seen;
    }
    check(rank || sum == size * (size - 1) / 2);
  }
}

// Counts that all ranks add to, under fences and under locks.
static void counts(void) {
  int *base, one = 1, old;
  MPI_Win window;
  MPI_Win_allocate(16 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  base[0] = base[1] = 0;
  MPI_Win_fence(0, window);
  for (int round = 0; round < 10; round++) {
    MPI_Accumulate(&one, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(round < 9 ? 0 : MPI_MODE_NOSUCCEED, window);
  }
  check(base[0] == 10);
  for (int round = 0; round < 10; round++) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 1, MPI_SUM, window);
    MPI_Win_flush(0, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(&old, 1, MPI_INT, 0, 1, 1, MPI_INT, window);
  MPI_Win_unlock(0, window);
  check(old == 10 * size);
  MPI_Win_free(&window);
}

static void transfers(int own_memory) {
  int *base = malloc(size * sizeof(int)), got;
  MPI_Win window;
  if (own_memory) MPI_Win_create(base, size * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  else MPI_Win_allocate(size * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  memset(base, 0, size * sizeof(int));
  MPI_Win_fence(0, window);
  for (int round = 1; round <= 10; round++) {
    const int mine = rank * 100 + round;
    for (int to = 0; to < size; to++) MPI_Put(&mine, 1, MPI_INT, to, rank, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int from = 0; from < size; from++) check(base[from] == from * 100 + round);
    MPI_Get(&got, 1, MPI_INT, (rank + 1) % size, (rank + 2) % size, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    check(got == (rank + 2) % size * 100 + round);
  }
  MPI_Win_free(&window);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!strcmp(argv[1], "messages")) messages();
  else if (!strcmp(argv[1], "questions")) questions();
  else if (!strcmp(argv[1], "counts")) counts();
  else transfers(!strcmp(argv[1], "created window"));
  printf("rank %d of %d is done\n", rank, size);
  MPI_Finalize();
  return 0;
}
"""
PACKAGES = {"mpich": ["mpich", "libmpich-dev"], "openmpi": ["openmpi-bin", "libopenmpi-dev"]}
DONE = [f"rank {rank} of 4 is done" for rank in range(4)]


@pytest.fixture
def run_mpi(recorder, tmp_path):
    """run_mpi(WHICH, PROGRAM'S ARGUMENT, OPTIONS of mpirun): the recording."""
    def run(which, what, *options):
        need(*PACKAGES[which])
        program = tmp_path / which
        subprocess.run([f"mpicc.{which}", "-O1", "-x", "c", "-o", program, "-"], input=PROGRAM, text=True, check=True, timeout=60)
        if which == "openmpi":
            options = ("--oversubscribe", *options)
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        recording = recorder.record([f"mpirun.{which}", *options, "-np", "4", program, what], name="mpi", env=root, timeout=90)
        assert recording.returncode == 0 and sorted(recording.stdout.splitlines()) == DONE, recording
        return recording
    return run


@pytest.mark.parametrize("what", ["messages", "questions", "window", "created window", "counts"])
def test_mpich(recorder, run_mpi, what):
    recording = run_mpi("mpich", what)
    assert "recording ended" not in recording.stderr, recording.stderr
    recorder.verify(recording)
    recorder.verify(recording, "--sync", "causal")


# Into memory that the program has allocated itself OpenMPI's component `rdma` writes with process_vm_writev; its other ones do not.
@pytest.mark.parametrize(("what", "options"), [("messages", ()), ("window", ()), ("created window", ("--mca", "osc", "^rdma"))])
def test_openmpi(recorder, run_mpi, what, options):
    recording = run_mpi("openmpi", what, *options)
    assert "recording ended" not in recording.stderr, recording.stderr
    recorder.verify(recording)
    recorder.verify(recording, "--sync", "causal")


def test_openmpi_that_writes_into_other_processes(recorder, run_mpi):
    """The ranks run to their end; the recording of each ends at the call by its name, and is good up to there."""
    recording = run_mpi("openmpi", "created window")
    ended = re.findall(r"recording ended at call (\w+)", recording.stderr)
    assert ended and set(ended) == {"process_vm_writev"}, recording.stderr
    assert re.search(r"process \d+ has written into its memory \(process_vm_writev\)", recording.stderr), recording.stderr
    recorder.verify(recording)
