/* The decision log: the topic transaction_decisions, one partition. Its order is the truth, so the model keeps no list of
   records but what they amount to, folded in log order (lifecycle/decision_ledger.py). */

byte ruling[AT_SIZE];             /* what the log says about (batch, attempt): COMMIT, VOID, ABORT; 0 = nothing yet */
byte listed[BRANCHES];            /* handles in its commit decision: 0, or 1 + the try whose transaction is listed */
byte outcome[BRANCHES];           /* of a listed handle: COMMITTED or LOST; 0 = none recorded yet */
byte last_decided[LIVES];         /* the last batch of a checkpoint id with a commit decision that counts */

/* Rule 1: the first decision for a (batch, attempt) counts, every later one is void. */
#ifdef NO_RULE_FIRST_DECISION
#define MAY_BE_DECIDED(at) true
#else
#define MAY_BE_DECIDED(at) (ruling[at] == 0)
#endif

/* Rule 2: a commit decision is void when another run of its prefix or checkpoint id started between its own run's start and it. */
#ifdef NO_RULE_VOID_WHEN_OVERTAKEN
#define IS_CURRENT(at) true
#elif CHANGED
#define IS_CURRENT(at) (!overtaken[RUN(at)])
#else
#define IS_CURRENT(at) (newest_run == RUN(at))
#endif

/* Rule 3: the first outcome of a handle counts. */
#ifdef NO_RULE_FIRST_OUTCOME
#define MAY_BE_SETTLED(at,s,m) true
#else
#define MAY_BE_SETTLED(at,s,m) (outcome[BRANCH(at,s,m)] == 0)
#endif

/* Rule 4: a commit decision is void when a later batch of the same checkpoint id was decided before. */
#ifdef NO_RULE_VOID_BELOW
#define IS_BELOW(at) false
#else
#define IS_BELOW(at) (BATCH(at) < last_decided[LIFE(RUN(at))])
#endif

/* What a reader finds who starts to read now. Without its head the log does not tell any more that the first runs ever started,
   so what they decided is void, or gone. */
#if defined(HEAD_CUT) || defined(TRIM)
byte cut_runs;                    /* so many "run started" records are gone */
byte cut_before[LAST_RUN+1];      /* and so many were when this run read the log */
#define READS(a,at) (RUN(at) > cut_before[a])
#elif CHANGED
#define READS(a,at) (LOG(RUN(at)) == LOG(a))
#else
#define READS(a,at) true
#endif

#define COUNTS(at)        (ruling[at] == COMMIT)
#define UNSETTLED(at,s,m) (COUNTS(at) && listed[BRANCH(at,s,m)] != 0 && outcome[BRANCH(at,s,m)] == 0)
#define SETTLED(at,s,m)   (COUNTS(at) && listed[BRANCH(at,s,m)] != 0 && outcome[BRANCH(at,s,m)] != 0)
/* Must the transaction that try t of slot s wrote be committed still? */
#define DECIDED(at,s,m,t) (UNSETTLED(at,s,m) && listed[BRANCH(at,s,m)] == 1 + (t))

inline append_commit(at) {
  if
  :: MAY_BE_DECIDED(at) && IS_CURRENT(at) && !IS_BELOW(at) -> ruling[at] = COMMIT; last_decided[LIFE(RUN(at))] = BATCH(at)
  :: MAY_BE_DECIDED(at) && !(IS_CURRENT(at) && !IS_BELOW(at)) -> ruling[at] = VOID
  :: else
  fi;
  printf("run %d batch %d: commit decision appended; in the log stands %e\n", RUN(at), BATCH(at), ruling[at]) }

inline append_abort(at) {
  if
  :: MAY_BE_DECIDED(at) -> ruling[at] = ABORT
  :: else
  fi }

inline append_outcome(at, s, m, how) {
#ifndef NO_RULE_OUTCOME_APPENDED          /* whoever settled a handle appends its outcome */
  if
  :: MAY_BE_SETTLED(at,s,m) -> outcome[BRANCH(at,s,m)] = how
  :: else
  fi
#else
  skip
#endif
}
