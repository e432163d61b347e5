/* Recovery, once per run before its batches (pipeline/recovery.py). The steps use variables of the process that takes them:
   x, y, s, m to count, answer for what a resource manager said. */

/* Append "run started" and read the log up to it: what counts there is what this run knows of the past. */
inline start_run(a) {
  printf("run %d starts\n", a);
#ifndef NO_RULE_START_RECORD_FIRST
  newest_run = a;
#endif
  for (x : 1 .. AT_SIZE-1) { if :: COUNTS(x) -> plan_at[a] = x :: else fi };
  if
  :: plan_at[a] != 0 ->
     y = 0;                               /* todo: one bit for each handle of that batch, in the order of the loops */
     for (x : AT(BATCH(plan_at[a]),1) .. AT(BATCH(plan_at[a]),LAST_RUN)) { for (s : 0 .. SLOTS-1) { for (m : FIRST .. LAST) {
       if
       :: UNSETTLED(x,s,m) -> todo = todo | (1 << y)
       :: SETTLED(x,s,m) -> count_in_plan(a, x, s, m, outcome[BRANCH(x,s,m)])
       :: else
       fi;
       y++ } } }
  :: else
  fi;
  next_unsettled(a) }

/* Missing is what the batch's last decision lost; committed is what any of its decisions committed. */
inline count_in_plan(a, at, s, m, how) {
  if
  :: how == COMMITTED -> plan_committed[PLAN(a,m,F(at,s))]++
#ifdef NO_RULE_LAST_DECISION_ONLY
  :: how == LOST -> plan_missing[PLAN(a,m,F(at,s))]++
#else
  :: how == LOST && at == plan_at[a] -> plan_missing[PLAN(a,m,F(at,s))]++
#endif
  :: else
  fi }

/* Let (x, s, m) be the next handle in todo, y its bit; x = 0 when none is left. */
inline next_unsettled(a) {
  x = (todo == 0 -> 0 : AT(BATCH(plan_at[a]), 1));
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
     settle(x, s, m);
     d_step {
       printf("run %d appends the outcome of run %d batch %d slot %d: %e\n", a, WHERE(x,s), answer);
       append_outcome(x, s, m, answer);
       count_in_plan(a, x, s, m, answer);
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
  sweep()
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
      :: PENDING(x) && plan_at[a] != 0 && BATCH(plan_at[a]) == BATCH(holder[x]/2) ->
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
inline sweep() {
#if SINK & 1
  do
  :: d_step { x < IDS ->
       if
       :: state[x] == OPEN && !DECIDED(holder[x]/2, SLOT_OF_ID(x), KAFKA, holder[x]%2) -> y = holder[x]
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
       :: branch[x] == PREPARED && !DECIDED(AT_OF_TXN(x), SLOT_OF_TXN(x), DATABASE, TRY_OF_TXN(x)) -> y = 1
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

