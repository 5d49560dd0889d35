// System V semaphores, message queues and segments' descriptions: over fork, with undo, every command that returns something.
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "check.h"

union semun {
  int val;
  struct semid_ds *buf;
  unsigned short *array;
  struct seminfo *info;
};
struct message {
  long type;
  char text[64];
};

static void child_ends(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void semaphores(void) {
  int set = semget(IPC_PRIVATE, 5, 0600);
  CHECK(set >= 0);
  unsigned short values[5] = {1, 0, 7, 65, 3}, got[5] = {0};
  struct semid_ds about;
  struct seminfo info;
  CHECK(semctl(set, 0, SETALL, (union semun){.array = values}) == 0);
  CHECK(semctl(set, 0, SETALL, (union semun){.array = (unsigned short*)16}) == -1 && errno == EFAULT);
  CHECK(semctl(set, 0, GETALL, (union semun){.array = got}) == 0 && memcmp(values, got, sizeof got) == 0);
  CHECK(semctl(set, 3, GETVAL) == 65 && semctl(set, 3, SETVAL, (union semun){.val = 66}) == 0 && semctl(set, 3, GETVAL) == 66);
  CHECK(semctl(set, 0, IPC_STAT, (union semun){.buf = &about}) == 0 && about.sem_nsems == 5 && (about.sem_perm.mode & 0777) == 0600);
  about.sem_perm.mode = 0640;
  CHECK(semctl(set, 0, IPC_SET, (union semun){.buf = &about}) == 0);
  CHECK(semctl(0, 0, IPC_INFO, (union semun){.info = &info}) >= 0 && info.semmsl >= 5);
  int last = semctl(0, 0, SEM_INFO, (union semun){.info = &info});
  CHECK(last >= 0 && info.semusz >= 1);
  for (int i = 0; i <= last; i++) semctl(i, 0, SEM_STAT, (union semun){.buf = &about});
  CHECK(semctl(set, 0, GETPID) == getpid() && semctl(set, 1, GETNCNT) == 0 && semctl(set, 1, GETZCNT) == 0);

  pid_t child = fork();
  if (child == 0) {
    struct sembuf take[2] = {{0, -1, SEM_UNDO}, {1, 1, 0}};
    CHECK(semop(set, take, 2) == 0);
    _exit(0);
  }
  struct sembuf wait = {1, -1, 0};
  CHECK(semop(set, &wait, 1) == 0);
  child_ends(child);
  CHECK(semctl(set, 0, GETVAL) == 1);  // undone
  struct timespec limit = {0, 2000000};
  CHECK(semtimedop(set, &wait, 1, &limit) == -1 && errno == EAGAIN);
  struct sembuf never = {1, -1, IPC_NOWAIT};
  CHECK(semop(set, &never, 1) == -1 && errno == EAGAIN);
  CHECK(semctl(set, 0, IPC_RMID) == 0 && semctl(set, 0, GETVAL) == -1 && errno == EINVAL);
}

static void messages(void) {
  int queue = msgget(IPC_PRIVATE, 0600);
  CHECK(queue >= 0);
  struct message out = {.type = 3}, in;
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 20; i++) {
      CHECK(msgrcv(queue, &in, sizeof in.text, 3, 0) == 8 && in.type == 3);
      in.type = 100 + i;
      CHECK(msgsnd(queue, &in, 8, 0) == 0);
    }
    _exit(0);
  }
  for (int i = 0; i < 20; i++) {
    snprintf(out.text, sizeof out.text, "text%03d", i);
    CHECK(msgsnd(queue, &out, 8, 0) == 0);
    memset(&in, 0, sizeof in);
    CHECK(msgrcv(queue, &in, sizeof in.text, 100 + i, 0) == 8 && in.type == 100 + i && memcmp(in.text, out.text, 8) == 0);
  }
  child_ends(child);
  CHECK(msgsnd(queue, &out, 0, 0) == 0 && msgsnd(queue, &(struct message){.type = 9, .text = "a long text"}, 12, 0) == 0);
  long copied = msgrcv(queue, &in, sizeof in.text, 1, MSG_COPY | IPC_NOWAIT);
  CHECK((copied == 12 && in.type == 9) || errno == ENOSYS);
  CHECK(msgrcv(queue, &in, 4, -9, MSG_EXCEPT) == 0 || errno == E2BIG);
  CHECK(msgrcv(queue, &in, 4, 9, 0) == -1 && errno == E2BIG);
  CHECK(msgrcv(queue, &in, 6, 9, MSG_NOERROR) == 6 && memcmp(in.text, "a long", 6) == 0);
  struct msqid_ds about;
  struct msginfo info;
  CHECK(msgctl(queue, IPC_STAT, &about) == 0 && about.msg_lspid == getpid() && about.msg_qnum <= 1);
  about.msg_qbytes = 4096;
  CHECK(msgctl(queue, IPC_SET, &about) == 0);
  CHECK(msgctl(0, IPC_INFO, (struct msqid_ds *)&info) >= 0 && info.msgmax > 0);
  int last = msgctl(0, MSG_INFO, (struct msqid_ds *)&info);
  CHECK(last >= 0 && info.msgpool >= 1);
  for (int i = 0; i <= last; i++) msgctl(i, MSG_STAT, &about);
  while (msgrcv(queue, &in, sizeof in.text, 0, IPC_NOWAIT) >= 0) {}
  CHECK(errno == ENOMSG && msgctl(queue, IPC_RMID, NULL) == 0);
}

static void segments(void) {
  int segment = shmget(IPC_PRIVATE, 10000, 0600);
  struct shmid_ds about;
  struct shm_info used;
  struct shminfo limits;
  CHECK(segment >= 0 && shmctl(segment, IPC_STAT, &about) == 0 && about.shm_segsz == 10000 && about.shm_nattch == 0);
  CHECK(shmctl(0, IPC_INFO, (struct shmid_ds *)&limits) >= 0 && limits.shmmin == 1);
  int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&used);
  CHECK(last >= 0 && used.used_ids >= 1);
  for (int i = 0; i <= last; i++) shmctl(i, SHM_STAT, &about);
  CHECK(shmctl(segment, IPC_RMID, NULL) == 0);
}

int main(void) {
  semaphores();
  messages();
  segments();
  return success();
}
