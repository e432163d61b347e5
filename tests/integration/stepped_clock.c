/* A machine whose clock is stepped, for one process: preloaded, it adds the nanoseconds that the file named in STEPPED_CLOCK
   holds (int64, native) to the time of day. Waits until a time of day come out as long as they were meant; clocks that no
   step moves are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define NO_TIME_OF_DAY 1000000000 /* seconds; a deadline below is of another clock */

static volatile int64_t *shared;

__attribute__((constructor)) static void map_file(void) {
  int file = open(getenv("STEPPED_CLOCK"), O_RDONLY);
  if (file < 0) abort();
  shared = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) abort();
  close(file);
}

static struct timespec moved(const struct timespec *at, int64_t by) {
  int64_t all = at->tv_sec * SECOND + at->tv_nsec + by;
  struct timespec after = {all / SECOND, all % SECOND};
  return after;
}

int clock_gettime(clockid_t which, struct timespec *at) {
  int failed = syscall(SYS_clock_gettime, which, at);
  if (!failed && shared && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) *at = moved(at, *shared);
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

static struct timespec real(const struct timespec *until) {
  return until->tv_sec > NO_TIME_OF_DAY ? moved(until, -*shared) : *until;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!wait) wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  struct timespec deadline = real(until);
  return wait(condition, mutex, &deadline);
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
  static int (*wait)(cnd_t *, mtx_t *, const struct timespec *);
  if (!wait) wait = dlsym(RTLD_NEXT, "cnd_timedwait");
  struct timespec deadline = real(until);
  return wait(condition, mutex, &deadline);
}
