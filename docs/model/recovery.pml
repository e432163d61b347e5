/* Recovery, once per run before its batches (pipeline/recovery/recovery.py). The steps use variables of the process that takes them:
   x, y, s, m to count, answer for what a resource manager said. */

/* Whose decisions does a run plan its replay from? Those of its own checkpoint id, and of its prefix and sink. Whose handles does it
   settle? Those of the last decided batch of every checkpoint id of its prefix. */
#if !CHANGED
#define IS_PLANNED_FROM(a,at) true
#define SETTLES_ANY(a)  (plan_at[a] != 0)
#define SETTLED_FROM(a) AT(BATCH(plan_at[a]),1)
#define SETTLED_TO(a)   AT(BATCH(plan_at[a]),LAST_RUN)
#define SETTLES(a,at)   READS(a,at)
#define REPLAYS(a,at)   READS(a,at)
#define IS_OWN(a,at)    true
#else
#define IS_OWN(a,at)    (LIFE(RUN(at)) == LIFE(a))
#ifdef NO_RULE_PLAN_BY_SINK
#define IS_PLANNED_FROM(a,at) IS_OWN(a,at)
#else
#define IS_PLANNED_FROM(a,at) (IS_OWN(a,at) && PREFIX(RUN(at)) == PREFIX(a) && SINK_OF(RUN(at)) == SINK_OF(a))
#endif
#define SETTLES_ANY(a)  true
#define SETTLED_FROM(a) 1
#define SETTLED_TO(a)   (AT_SIZE-1)
#define SETTLES(a,at)   (READS(a,at) && PREFIX(RUN(at)) == PREFIX(a) && BATCH(at) == last_decided[LIFE(RUN(at))])
#define REPLAYS(a,at)   (READS(a,at) && IS_PLANNED_FROM(a,at) && plan_at[a] != 0 && BATCH(at) == BATCH(plan_at[a]))
#endif

/* Spark's commit log proves that a batch was committed, by its last decision; then no person is asked. */
#ifdef NO_RULE_PROVEN_BY_SPARK
#define IS_PROVEN(a,at) false
#else
#define IS_PROVEN(a,at) ((at) == plan_at[a] && COMPLETED(a) >= BATCH(at))
#endif

/* Append "run started" and read the log up to it: what counts there is what this run knows of the past. */
inline start_run(a) {
  printf("run %d starts\n", a);
#if CHANGED
  append_run_started(a, LOG(a), LIFE_IN(a));
#endif
#ifndef NO_RULE_START_RECORD_FIRST
  newest_run = a;
#endif
#if defined(HEAD_CUT) || defined(TRIM)
  cut_before[a] = cut_runs;
#endif
#if CHANGED
  failed = is_over[LIFE_IN(a)];
#endif
#if defined(HEAD_CUT) && !defined(NO_RULE_CUT_IS_UNREADABLE)
  if :: cut_runs > 0 -> failed = 1; printf("run %d cannot read the log: its head is gone\n", a) :: else fi;
#endif
  for (x : 1 .. AT_SIZE-1) { if :: COUNTS(x) && READS(a,x) && IS_PLANNED_FROM(a,x) -> plan_at[a] = x :: else fi };
  if
  :: !failed && SETTLES_ANY(a) ->
     y = 0;                               /* todo: one bit for each handle of that batch, in the order of the loops */
     for (x : SETTLED_FROM(a) .. SETTLED_TO(a)) { for (s : 0 .. SLOTS-1) { for (m : FIRST .. LAST) {
       if
       :: UNSETTLED(x,s,m) && SETTLES(a,x) -> todo = todo | (1 << y)
       :: SETTLED(x,s,m) && REPLAYS(a,x) -> count_in_plan(a, x, s, m, outcome[BRANCH(x,s,m)])
       :: else
       fi;
       y++ } } }
  :: else
  fi;
  next_unsettled(a) }

/* Missing is what the batch's last decision lost; committed is what any of its decisions committed. */
inline count_in_plan(a, at, s, m, how) {
  if
  :: !REPLAYS(a,at)
  :: REPLAYS(a,at) && how == COMMITTED -> plan_committed[PLAN(a,m,F(at,s))]++
#ifdef NO_RULE_LAST_DECISION_ONLY
  :: how == LOST -> plan_missing[PLAN(a,m,F(at,s))]++
#else
  :: how == LOST && at == plan_at[a] -> plan_missing[PLAN(a,m,F(at,s))]++
#endif
  :: else
  fi }

/* Let (x, s, m) be the next handle in todo, y its bit; x = 0 when none is left. */
inline next_unsettled(a) {
  x = (todo == 0 -> 0 : SETTLED_FROM(a));
  y = 0; s = 0; m = FIRST;
  do
  :: todo != 0 && ((todo >> y) & 1) == 0 ->
     y++;
     if
     :: m < LAST -> m++
     :: m == LAST && s < SLOTS-1 -> m = FIRST; s++
     :: else -> m = FIRST; s = 0; x++
     fi
  :: else -> break
  od;
  skip }

/* Settle every handle of the last decided batch and append its outcome; then roll back everything else. */
inline recover(a) {
#ifdef NO_RULE_START_RECORD_FIRST
  newest_run = a;
#endif
  do
  :: x != 0 ->
     if :: IS_PROVEN(a,x) -> answer = COMMITTED :: else -> settle(x, s, m) fi;
     d_step {
#if defined(EXPIRY) || CHANGED
       if
       :: answer == UNKNOWN -> ask(a, x)
       :: else ->
#endif
       printf("run %d appends the outcome of run %d batch %d slot %d: %e\n", a, WHERE(x,s), answer);
       append_outcome(x, s, m, answer);
       count_in_plan(a, x, s, m, answer);
#if defined(EXPIRY) || CHANGED
       fi;
#endif
#ifdef CALM
       wasted = wasted || answer == LOST; assert(!wasted);
#endif
       todo = todo & ~(1 << y); answer = 0;
       next_unsettled(a) }
  :: else -> break
  od;
  x = 0; y = 0; s = 0; m = 0;
#ifdef NO_RULE_ONLY_LISTED
  commit_whatever_is_prepared(a);
#endif
#ifndef NO_RULE_SWEEP
  if :: !failed -> sweep(a) :: else fi
#endif
}

#if defined(EXPIRY) || CHANGED
/* Nobody can tell: the run does not start, and an operator must compare the sink with the input. What belongs to another checkpoint id is
   left as it is. After a stop in order, however long, no person is asked. */
inline ask(a, at) {
  if
  :: IS_OWN(a,at) ->
     failed = 1;
     printf("run %d batch %d: nobody can tell whether it was committed\n", RUN(at), BATCH(at));
     stuck = quiet && !(HAS_EXPIRED && COMPLETED(a) < BATCH(at)); assert(!stuck)
  :: else
  fi }
#endif

/* Spark goes on with the batch that it planned and did not complete, or with the next one. Where the log knows of a later one, the
   directory is an old backup or an old copy: the run does not start. */
inline choose_batch(a) {
  b = (PLANNED(a) > COMPLETED(a) -> PLANNED(a) : COMPLETED(a) + 1);
#if (defined(RESTORE) || CHANGED) && !defined(NO_RULE_REFUSE_BELOW)
  if
  :: !failed && plan_at[a] != 0 && BATCH(plan_at[a]) > PLANNED(a) ->
     failed = 1; printf("run %d is refused: batch %d was decided, and the directory is older\n", a, BATCH(plan_at[a]))
  :: else
  fi
#endif
}

/* Commit one decided handle; answer: COMMITTED or LOST. */
inline settle(at, s, m) {
  do
  :: if
#if SINK & 1
     :: d_step { m == KAFKA -> kafka_commit(at, s, WRITER(at, listed[BRANCH(at,s,m)]-1)) };
        if :: answer == FENCED -> d_step { kafka_judge(at, s) } :: else fi
#endif
#if SINK & 2
     :: m == DATABASE -> database_commit(at, s, TXN(at, s, listed[BRANCH(at,s,m)]-1));
        if :: answer == NO_SUCH_BRANCH -> database_judge(at, s, TXN(at, s, listed[BRANCH(at,s,m)]-1)) :: else fi
#endif
     fi;
     if
     :: answer != RETRY_LATER -> break
#if SINK & 2
     :: answer == RETRY_LATER -> stuck = quiet; assert(!stuck)
#endif
     fi
  od;
  skip;
#ifdef NO_RULE_MARKER_INSIDE              /* instead, whoever committed writes the marker afterwards */
  d_step {
    if
#if SINK & 1
    :: answer == COMMITTED && m == KAFKA -> marker[s] = at
#endif
#if SINK & 2
    :: answer == COMMITTED && m == DATABASE -> marker_row[CELL(at,s)] = COMMITTED
#endif
    :: else
    fi }
#endif
}

#ifdef NO_RULE_ONLY_LISTED                /* instead: what is prepared for a decided batch is committed with it */
inline commit_whatever_is_prepared(a) {
  d_step {
#if SINK & 1
    for (x : 0 .. IDS-1) {
      if
      :: state[x] == OPEN && pending[x] && plan_at[a] != 0 && BATCH(plan_at[a]) == BATCH(holder[x]/2) ->
         kafka_commit((holder[x]/2), SLOT_OF_ID(x), holder[x])
      :: else
      fi };
#endif
#if SINK & 2
    for (x : 0 .. TXNS-1) {
      if
      :: branch[x] == PREPARED && plan_at[a] != 0 && BATCH(plan_at[a]) == BATCH(AT_OF_TXN(x)) -> database_end_commit(x)
      :: else
      fi };
#endif
    x = 0; answer = 0 } }
#endif

/* Roll back every open transaction of this prefix that no counting decision lists: look, read the log, abort exactly. */
inline sweep(a) {
#if SINK & 1
  do
  :: d_step { x < IDS ->
       if
       :: state[x] == OPEN && PREFIX(RUN(holder[x]/2)) == PREFIX(a) &&
          !(READS(a,holder[x]/2) && DECIDED(holder[x]/2, SLOT_OF_ID(x), KAFKA, holder[x]%2)) -> y = holder[x]
       :: else -> x++
       fi };
     if
     :: y != 0 -> d_step { printf("sweep of "); kafka_roll_back(x, y); y = 0; x++ }
     :: else
     fi
  :: else -> break
  od;
  x = 0;
#endif
#if SINK & 2
  do
  :: d_step { x < TXNS ->
       if
       :: branch[x] == PREPARED &&
          !(READS(a,AT_OF_TXN(x)) && DECIDED(AT_OF_TXN(x), SLOT_OF_TXN(x), DATABASE, TRY_OF_TXN(x))) -> y = 1
       :: else -> x++
       fi };
     if
     :: y != 0 -> d_step { printf("sweep of "); database_roll_back(x); y = 0; x++ }
     :: else
     fi
  :: else -> break
  od;
  x = 0;
#endif
  skip }

