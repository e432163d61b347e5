/* A batch: what a task does, and what the driver does with the tasks' messages. The steps use variables of the process that takes
   them: x, y, s, m to count, answer for what a resource manager said, failed for an error that was raised. */

byte started[CELLS];                      /* how many tries of this task Spark has started */
byte message[CELLS];                      /* the task's message to the driver: 1 + try, or FAILED; 0 = none yet */
#define FAILED 3
#define HAS_PREPARED(at,s,m) (message[CELL(at,s)] != 0 && message[CELL(at,s)] != FAILED && PREPARES(at,s,m))

/* --------------------------------------------------------------------------------------- begin, write, prepare: one try */

inline task(at, s, t) {
#if SINK & 1
  if :: BEGINS(at,KAFKA) -> kafka_begin(at, s, t) :: else fi;
#endif
#if SINK & 2
  if :: !failed && BEGINS(at,DATABASE) -> database_begin(at, s, t) :: else fi;
#endif
  IN_ONE_STEP {
#if SINK & 1
    d_step { if :: !failed && PREPARES(at,s,KAFKA) -> kafka_write(at, s, t) :: else fi };
#endif
#if SINK & 2
    d_step { if :: !failed && PREPARES(at,s,DATABASE) -> database_write(at, s, t) :: else fi };
#endif
#if SINK & 1
    d_step { if :: !failed && PREPARES(at,s,KAFKA) -> kafka_prepare(at, s, t) :: else fi };
#endif
#if SINK & 2
    d_step { if :: !failed && PREPARES(at,s,DATABASE) -> database_prepare(at, s, t) :: else fi };
#endif
    d_step {
      for (m : FIRST .. LAST) {           /* neither missing nor committed before: the query is not deterministic */
        if :: NEVER_HELD(at,m,F(at,s)) -> failed = 1 :: else fi };
      m = 0;
      tell_driver(at, s, t) } } }

inline tell_driver(at, s, t) {
  if
  :: failed ->
#if SINK & 1
     kafka_roll_back(ID(at,s), WRITER(at,t));
#endif
#if SINK & 2
     database_undo(TXN(at,s,t));
#endif
     failed = 0;
     if :: IS_HEARD(at,s,t) && t == LAST_TRY(RUN(at),s) -> message[CELL(at,s)] = FAILED :: else fi
  :: else ->
     if :: IS_HEARD(at,s,t) -> message[CELL(at,s)] = 1 + t :: else fi
  fi }

/* ------------------------------------------------------------------------ choose, check, decide, commit, abort: the driver */

/* What the decision will list: everything that was prepared; in a replay exactly as many of each fingerprint as are missing,
   in each resource manager, and an error when the batch does not hold the rows that it held before. */
inline choose(at) {
  d_step {
    for (s : 0 .. SLOTS-1) { for (m : FIRST .. LAST) {
      y = 0;                              /* handles of the same fingerprint that are listed already */
      for (x : 0 .. SLOTS*MANAGERS-1) {
        if
        :: listed[BRANCH(at,0,FIRST)+x] != 0 && F(at,x/MANAGERS) == F(at,s) && SHARE_PLAN(FIRST+x%MANAGERS,m) -> y++
        :: else
        fi };
      if
      :: message[CELL(at,s)] == FAILED -> failed = 1
      :: HOLDS_OTHER_ROWS(at,m,F(at,s)) -> failed = 1
      :: else
      fi;
      if
      :: HAS_PREPARED(at,s,m) && IS_LISTED_IN(m) && (LIST_ALL || !IS_REPLAY(at) || MISSING(at,m,F(at,s)) > y) ->
         listed[BRANCH(at,s,m)] = message[CELL(at,s)]
      :: else
      fi } };
    x = 0; y = 0; s = 0; m = 0 };
#ifdef EQUAL_FINGERPRINTS
  d_step {                                /* the surplus is rolled back */
    for (s : 0 .. SLOTS-1) { for (m : FIRST .. LAST) {
      if :: !failed && HAS_PREPARED(at,s,m) && listed[BRANCH(at,s,m)] == 0 -> roll_back(at, s, m) :: else fi } };
    s = 0; m = 0 }
#endif
}

inline roll_back(at, s, m) {
  if
#if SINK & 1
  :: m == KAFKA -> kafka_roll_back(ID(at,s), WRITER(at, message[CELL(at,s)]-1))
#endif
#if SINK & 2
  :: m == DATABASE -> database_roll_back(TXN(at, s, message[CELL(at,s)]-1))
#endif
  fi }

/* Every listed transaction is open still, with enough time left. */
inline check(at) {
  d_step {
#ifndef NO_RULE_CHECK
    for (s : 0 .. SLOTS-1) { for (m : FIRST .. LAST) {
      if
#if SINK & 1
      :: m == KAFKA && listed[BRANCH(at,s,m)] != 0 && !HOLDS_OPEN(ID(at,s), WRITER(at, listed[BRANCH(at,s,m)]-1)) ->
         failed = 1
#endif
#if SINK & 2
      :: m == DATABASE && listed[BRANCH(at,s,m)] != 0 && branch[TXN(at, s, listed[BRANCH(at,s,m)]-1)] != PREPARED ->
         failed = 1
#endif
      :: else
      fi } };
#endif
    s = 0; m = 0;
    checked = !failed && CALM_NOW } }

/* Append the decision, read the log back up to it: only if it counts the batch is committed. */
inline decide(at) {
  if
  :: d_step {
       append_commit(at);
#ifndef NO_RULE_READ_BACK
       failed = !COUNTS(at)
#endif
     }
#ifdef LATE_APPEND
  :: d_step { !quiet && late_at == 0 -> late_at = at; failed = 1;
       printf("run %d batch %d: appending the decision raises\n", RUN(at), BATCH(at)) }
#endif
  fi }

/* Every handle is tried; then the first error is raised. */
inline commit(at) {
  do
  :: y < SLOTS*MANAGERS ->
     s = y/MANAGERS; m = FIRST + y%MANAGERS;
     if
     :: listed[BRANCH(at,s,m)] != 0 ->
        settle(at, s, m); d_step { failed = failed || answer == LOST || answer == UNKNOWN; answer = 0; y++ }
#ifdef CALM                               /* elsewhere a crash at this place does the same */
     :: listed[BRANCH(at,s,m)] != 0 && !quiet -> failed = 1; y++        /* the resource manager gives no answer in time */
#endif
     :: else -> y++
     fi
  :: else -> break
  od;
  s = 0; m = 0; y = 0;
  append_outcomes(at);
#ifdef NO_RULE_ONE_DECISION               /* instead: the database is committed when Kafka is */
  do
  :: s < SLOTS && !failed -> database_commit(at, s, TXN(at, s, message[CELL(at,s)]-1)); answer = 0; s++
  :: else -> break
  od;
  s = 0
#endif
}

/* After a batch is committed everywhere, its outcomes are appended at once, so no later run needs its markers. */
inline append_outcomes(at) {
#ifdef NO_RULE_OUTCOME_AT_COMMIT
  skip
#else
  if
  :: d_step { !failed ->
       for (s : 0 .. SLOTS-1) { for (m : FIRST .. LAST) {
         if :: listed[BRANCH(at,s,m)] != 0 -> append_outcome(at, s, m, COMMITTED) :: else fi } };
       s = 0; m = 0 }
  :: failed
#ifdef EXPIRY
  :: !failed && !quiet                    /* appending them raises; the batch is committed all the same */
#endif
  fi
#endif
}

/* Spark calls it with every message, also when commit raised: what was decided stays as it is. */
inline abort(at) {
  if
#ifndef NO_RULE_LOOK_BEFORE_ABORT
  :: COUNTS(at)
#endif
  :: else ->
     do
     :: y < SLOTS*MANAGERS ->
        d_step {
          s = y/MANAGERS; m = FIRST + y%MANAGERS; y++;
          if :: HAS_PREPARED(at,s,m) -> roll_back(at, s, m) :: else fi;
          s = 0; m = 0 }
     :: else -> break
     od;
     y = 0
  fi }

#define LISTED(at,s)       (listed[BRANCH(at,s,FIRST)] + listed[BRANCH(at,s,LAST)])
#define NOTHING_LISTED(at) (LISTED(at,0) + LISTED(at,SLOTS-1) == 0)

/* The batch as the driver sees it, from the tasks' messages to Spark's commit log. */
inline finish_batch(at) {
  choose(at);
  if
  :: failed || NOTHING_LISTED(at)
  :: else ->
     check(at);
     if :: !failed -> decide(at) :: else fi;
     if :: !failed -> commit(at) :: else fi
  fi;
  if
  :: failed -> stuck = quiet && !IS_RESTORED; assert(!stuck); abort(at)
  :: else -> d_step {
       printf("run %d batch %d: complete\n", RUN(at), BATCH(at));
       COMPLETED(RUN(at)) = (COMPLETED(RUN(at)) < BATCH(at) -> BATCH(at) : COMPLETED(RUN(at)));
       if :: !quiet || SINKS > 1 -> nothing_is_missing(SINK_OF(RUN(at)), BATCH(at)) :: else fi }
  fi }
