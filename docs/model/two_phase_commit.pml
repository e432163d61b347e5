/* Two-phase commit over micro-batches: what must never be, and the processes. Their steps are in recovery.pml (recover, sweep)
   and batch.pml (begin, write, prepare, check, decide, commit, abort), the world around them in decision_log.pml, kafka.pml and
   database.pml.

   A crash is a process that is never scheduled again, a zombie is one that is scheduled late: a run may start at any moment
   after the one before has started, and older runs and their tasks may go on at any moment until QuietRestart begins. */

#include "sizes.pml"

byte newest_run;                          /* runs have numbers in the order of their starts */
bit quiet;                                /* the quiet restart has begun: nothing else moves any more */
#ifdef LATE_APPEND
byte late_at;                             /* the attempt whose commit decision is still on its way to the log */
#endif
#include "lives.pml"

byte visible[SINKS*MANAGERS*BATCHES*SLOTS];    /* how often read_committed readers see the rows of one fingerprint */
#define VISIBLE(k,m,b,f) visible[(((k)*MANAGERS + (m)-FIRST)*BATCHES + (b)-1)*SLOTS + (f)]
#if ORDERS > 0
byte orders_given;
#endif

/* What must never be. Each is asserted where it could become true. */
bit lost;                         /* a completed batch misses rows */
bit twice;                        /* rows are visible twice */
bit one_side_only;                /* at the end a batch is visible in one resource manager and not in the other */
bit orphaned;                     /* at the end a transaction is in doubt, and no process will ever end it */
bit stuck;                        /* an undisturbed restart fails */
bit wasted;                       /* -DCALM: a decided transaction is lost without a disturbance, and must be replayed */

inline becomes_visible(at, s, m) {
  VISIBLE(SINK_OF(RUN(at)), m, BATCH(at), F(at,s))++;
  twice = VISIBLE(SINK_OF(RUN(at)), m, BATCH(at), F(at,s)) > SLOTS_WITH(F(at,s));
  assert(!twice) }

inline nothing_is_missing(k, b) {
  for (m : FIRST .. LAST) { for (x : 0 .. SLOTS-1) { lost = lost || VISIBLE(k,m,b,x) < SLOTS_WITH(x) } };
  m = 0; x = 0;
  assert(!lost) }

#include "decision_log.pml"
#if SINK & 1
#include "kafka.pml"
#endif
#if SINK & 2
#include "database.pml"
#endif
#include "replay.pml"
#include "recovery.pml"
#include "batch.pml"
#include "expiry.pml"

inline nothing_is_open(a) {
#if SINK & 1
  for (x : 0 .. IDS-1) { orphaned = orphaned || (state[x] == OPEN && PREFIX(RUN(holder[x]/2)) == PREFIX(a)) };
#endif
#if SINK & 2
  for (x : 0 .. TXNS-1) { orphaned = orphaned || branch[x] == PREPARED };
#endif
  assert(!orphaned) }

/* One run of the pipeline: its driver. */
proctype Run(byte a) provided (!quiet) {
  byte b, s, m, x, y, answer;
  int todo;
  bit failed;
#if CHANGED
  end_not_started: d_step { newest_run == a-1 && MAY_OVERTAKE(a-1) && (a%2 == 1 || copied) ->
    newest_run = a; pipeline[a] = 1 - a%2;
    if :: IS_CHANGED(a) -> look_before_adoption(a) :: else -> start_run(a) fi };
  if
  :: adopting[a] ->
     d_step { start_under_old_life(a) };
     d_step { adopt(a) };
     d_step { if :: !failed -> start_run(a) :: else fi }
  :: else
  fi;
#else
  end_not_started: d_step { newest_run == a-1 && MAY_OVERTAKE(a-1) -> start_run(a) };
#endif
  recover(a);
  d_step { choose_batch(a) };
  do
  :: b <= BATCHES && !failed ->
#if SLOTS > 1
     if :: swapped[AT(b,a)] = 0 :: swapped[AT(b,a)] = 1 fi;
#endif
     d_step { TO_PLAN(b,a); for (s : 0 .. SLOTS-1) { started[CELL(AT(b,a),s)] = 1 }; s = 0 };
     do
     :: message[CELL(AT(b,a),0)] != 0 && message[CELL(AT(b,a),SLOTS-1)] != 0 -> break
     :: message[CELL(AT(b,a),0)] == FAILED || message[CELL(AT(b,a),SLOTS-1)] == FAILED -> break     /* others go on */
#if TRIES > 1
     :: d_step { MAY_RETRY(a) && started[CELL(AT(b,a),0)] == 1 && message[CELL(AT(b,a),0)] == 0 -> started[CELL(AT(b,a),0)] = 2 }
#endif
     od;
     finish_batch(AT(b,a));
     b++
  :: else -> break
  od;
#ifdef ONLY_OVERTAKEN
  ended = a;
#endif
  end_of_run: false
}

/* One try of a run's task in one slot, batch after batch. */
proctype Task(byte a, s, t) provided (!quiet) {
  byte b = 1, m, x;
  bit failed;
  end_idle: do
  :: d_step { b <= BATCHES && started[CELL(AT(b,a),s)] > t -> skip }; task(AT(b,a), s, t); b++
  :: d_step { b < BATCHES && started[CELL(AT(b,a),s)] <= t && started[CELL(AT(b+1,a),s)] > 0 -> b++ }
  od
}

#if SINK & 1
/* The timeout of whatever stays open under a transactional id, at any moment. */
proctype Timeout(byte i) provided (!quiet) {
  end_idle: do
  :: d_step { state[i] == OPEN && !checked && MAY_ABORT -> kafka_abort_open(i); COUNT_ABORT;
       printf("run %d batch %d slot %d: timeout in Kafka\n", WHERE(holder[i]/2, SLOT_OF_ID(i))) }
  od
}
#endif

#if SINK & 2
/* The server finishes a commit that has begun. An administrator may roll a prepared branch back by hand, at any moment (X/Open
   calls that a heuristic rollback): a database's way to lose what was decided. */
proctype Branch(byte i) provided (!quiet) {
  end_idle: do
  :: d_step { branch[i] == COMMITTING -> database_end_commit(i) }
  :: d_step { branch[i] == PREPARED && !checked && MAY_ABORT -> branch[i] = ABORTED; COUNT_ABORT;
       printf("run %d batch %d slot %d: rolled back by hand in the database\n", WHERE(AT_OF_TXN(i), SLOT_OF_TXN(i))) }
  od
}
#endif

#ifdef LATE_APPEND
/* The record of a decision reaches the log although appending it raised. */
proctype LateAppend() provided (!quiet) {
  end_idle: do
  :: d_step { late_at != 0 -> append_commit(late_at); late_at = 0 }
  od
}
#endif

#if ORDERS > 0 && SINK & 1
/* An operator looks at what one transactional id has open and orders: abort (append an abort decision, read back, and abort
   that very transaction unless its commit was decided), or commit it when a counting decision lists it. */
proctype Operator(byte i) provided (!quiet) {
  byte w, answer;
  end_idle: do
  :: d_step { orders_given < ORDERS && state[i] == OPEN -> w = holder[i]; orders_given++ };
     if
     :: d_step { append_abort(w/2); answer = (COUNTS(w/2) -> 0 : ABORT);
          printf("run %d batch %d slot %d: an operator orders its abort; ", WHERE(w/2, SLOT_OF_ID(i)));
          printf("in the log stands %e\n", ruling[w/2]) };
        d_step { if :: answer == ABORT -> kafka_roll_back(i, w) :: else fi; answer = 0; w = 0 }
     :: d_step { DECIDED(w/2, SLOT_OF_ID(i), KAFKA, w%2) ->
          printf("an operator orders: "); kafka_commit((w/2), SLOT_OF_ID(i), w); answer = 0; w = 0 }
     fi
  od
}
#endif

/* An undisturbed run, from recovery to its last batch. It leaves every batch whole, unless it was refused. */
inline quiet_run(a) {
  recover(a);
  choose_batch(a);
  do
  :: b <= BATCHES && !failed ->
#if SLOTS > 1
     if :: swapped[AT(b,a)] = 0 :: swapped[AT(b,a)] = 1 fi;
#endif
     TO_PLAN(b,a); for (s : 0 .. SLOTS-1) { started[CELL(AT(b,a),s)] = 1 };
     task(AT(b,a), 0, 0);
#if TRIES > 1
     if
     :: message[CELL(AT(b,a),0)] = 0;                        /* but for one executor, which dies before it can tell */
        started[CELL(AT(b,a),0)] = 2;
        task(AT(b,a), 0, 1)
     :: skip
     fi;
#endif
#if SLOTS > 1
     task(AT(b,a), 1, 0);
#endif
     s = 0;
     finish_batch(AT(b,a));
     b++
  :: else -> break
  od;
  skip;
  if
  :: !failed -> d_step {
#if SINKS == 1
     for (b : 1 .. BATCHES) {
       for (x : 0 .. SLOTS-1) { one_side_only = one_side_only || VISIBLE(0,FIRST,b,x) != VISIBLE(0,LAST,b,x) };
       assert(!one_side_only);
       nothing_is_missing(0, b) };
#endif
     nothing_is_open(a);
     b = 0; x = 0; m = 0; s = 0 }
  :: else
  fi }

/* From here on nothing else moves: whatever was running is dead, and its connections are closed. Whatever it left behind, this
   one restart must bring every batch to its end, and leave nothing in doubt. */
proctype QuietRestart() {
  byte a, b, s, m, x, y, answer;
  int todo;
  bit failed;
#if CHANGED
  bit is_second, was_refused;
#endif
  atomic {
    d_step {
      newest_run > 0 ->
      printf("everybody is dead from here on, but for the quiet restart\n");
      quiet = 1;
#if SINK & 2
      for (x : 0 .. TXNS-1) {
        if
        :: branch[x] == ACTIVE -> branch[x] = ABORTED
        :: branch[x] == COMMITTING -> database_end_commit(x)
        :: else
        fi };
#endif
      x = 0 };
#if CHANGED
    if :: copied -> pipeline[newest_run+1] = 1 :: skip fi;
    do                                                         /* one pipeline, then the other */
    :: a = newest_run + 1; newest_run = a;
       if :: IS_CHANGED(a) -> look_before_adoption(a); start_under_old_life(a); adopt(a) :: else fi;
       if :: !failed -> start_run(a) :: else fi;
       quiet_run(a);
       stuck = failed && (was_refused || !copied) && !HAS_EXPIRED; assert(!stuck);
       if :: !is_second && copied -> is_second = 1; pipeline[a+1] = !pipeline[a] :: else -> break fi;
       was_refused = failed; failed = 0
    od;
#else
    a = newest_run + 1; start_run(a);
    quiet_run(a);
#endif
    a = 0
  };
  do :: quiet -> skip od
}

init {
  byte a, s, t;
  atomic {
    for (a : 1 .. RUNS) {
      run Run(a);
      for (s : 0 .. SLOTS-1) { for (t : 0 .. LAST_TRY(a,s)) { run Task(a, s, t) } } };
#if SINK & 1
    for (a : 0 .. IDS-1) {
      run Timeout(a);
#ifdef END_MARKER_MISSING
      run MissingEndMarker(a);
#endif
#if ORDERS > 0
      run Operator(a);
#endif
      skip };
#endif
#if SINK & 2
    for (a : 0 .. TXNS-1) { run Branch(a) };
#endif
#ifdef LATE_APPEND
    run LateAppend();
#endif
#ifndef NOBODY_DIES
    run QuietRestart();
#endif
#if CHANGED & 1
    run Copy();
#endif
#ifdef EXPIRY
    run SevenDays();
#endif
#ifdef HEAD_CUT
    run HeadCut();
#endif
#ifdef TRIM
    run Trim();
#endif
#ifdef RESTORE
    run Restore();
#endif
    a = 0; s = 0; t = 0 }
  end_init: false
}
