/* What a replayed batch must write (pipeline/sink/replay.py): a run tells its tasks what was committed of the last decided batch and
   what is missing, counted by fingerprint, for each resource manager. */

byte plan_at[LAST_RUN+1];                 /* the last decision of that batch; 0 = nothing was decided before */
byte plan_committed[PLANS], plan_missing[PLANS];

#ifdef NO_RULE_PLAN_PER_MANAGER
#define PLAN(run,m,f)   ((run)*MANAGERS*SLOTS + (f))
#define SHARE_PLAN(m,n) true
#else
#define PLAN(run,m,f)   (((run)*MANAGERS + (m)-FIRST)*SLOTS + (f))
#define SHARE_PLAN(m,n) ((m) == (n))
#endif

#define IS_REPLAY(at)   (plan_at[RUN(at)] != 0 && BATCH(plan_at[RUN(at)]) == BATCH(at))
#define MISSING(at,m,f) plan_missing[PLAN(RUN(at),m,f)]
#define HAD(at,m,f)     plan_committed[PLAN(RUN(at),m,f)]

/* A replay prepares rows whose fingerprint is missing, and no others; and no more of them than are missing (see choose). */
#if defined(NO_RULE_MISSING_ONLY)         /* instead: everything again */
#define PREPARES(at,s,m) true
#define LIST_ALL 1
#elif defined(NO_RULE_MULTISET)           /* instead: fingerprints are a set, and one that was committed is not missing */
#define PREPARES(at,s,m) (!IS_REPLAY(at) || (MISSING(at,m,F(at,s)) > 0 && HAD(at,m,F(at,s)) == 0))
#define LIST_ALL 1
#else
#define PREPARES(at,s,m) (!IS_REPLAY(at) || MISSING(at,m,F(at,s)) > 0)
#define LIST_ALL 0
#endif

/* A transaction is begun where anything is missing; -DBEGIN_ALWAYS: everywhere, as a simpler design would have it. */
#ifdef BEGIN_ALWAYS
#define BEGINS(at,m) true
#else
#define BEGINS(at,m) (PREPARES(at,0,m) || PREPARES(at,SLOTS-1,m))
#endif

#ifdef NO_RULE_ONE_DECISION               /* instead: the decision lists Kafka's handles, the database follows (see commit) */
#define IS_LISTED_IN(m) ((m) == KAFKA)
#else
#define IS_LISTED_IN(m) true
#endif

/* A replay must hold the rows that the batch held before. Without the rules above these sums say something else. */
#if LIST_ALL || defined(NO_RULE_PLAN_PER_MANAGER) || defined(NO_RULE_ONE_DECISION)
#define HOLDS_OTHER_ROWS(at,m,f) false
#define NEVER_HELD(at,m,f)       false
#else
#define HOLDS_OTHER_ROWS(at,m,f) (IS_REPLAY(at) && MISSING(at,m,f) + HAD(at,m,f) != SLOTS_WITH(f))
#define NEVER_HELD(at,m,f)       (IS_REPLAY(at) && MISSING(at,m,f) + HAD(at,m,f) == 0)
#endif
