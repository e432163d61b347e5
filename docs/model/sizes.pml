/* Sizes, numbers, and ways to make the search smaller; README.md lists them all. */

#ifndef SINK
#define SINK 1                    /* 1 Kafka, 2 a database, 3 both under one decision: a global transaction */
#endif
#ifndef RUNS
#define RUNS 2                    /* runs that may overlap; the quiet run is additional */
#endif
#ifndef BATCHES
#define BATCHES 1
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef TRIES
#define TRIES 1                   /* 2: Spark may start a second try of slot 0's task, and the first goes on as a zombie */
#endif
#ifndef ORDERS
#define ORDERS 0                  /* orders that an operator may give */
#endif
#ifndef CHANGED
#define CHANGED 0                 /* run 2 has its own: 1 copy of the directory, 2 prefix, 4 log, 8 sink; their sum (lives.pml) */
#endif

mtype = { COMMIT, VOID, ABORT, OPEN, ACTIVE, PREPARED, COMMITTING, COMMITTED, ABORTED, LOST, FENCED, NO_SUCH_BRANCH,
          RETRY_LATER, TOMBSTONE, UNKNOWN };

#define KAFKA 0
#define DATABASE 1
#if SINK == 1
#define FIRST KAFKA
#define LAST KAFKA
#elif SINK == 2
#define FIRST DATABASE
#define LAST DATABASE
#else
#define FIRST KAFKA
#define LAST DATABASE
#endif
#define MANAGERS (LAST-FIRST+1)

/* A (batch, attempt) is one number, at = 1, 2, ..., in the order of markers. */
#if CHANGED
#define QUIET_RUNS     2          /* at the end both pipelines are restarted, in either order */
#else
#define QUIET_RUNS     1
#endif
#define LAST_RUN       (RUNS+QUIET_RUNS)
#define AT(batch,run)  (((batch)-1)*LAST_RUN + (run))
#define AT_SIZE        (BATCHES*LAST_RUN + 1)
#define BATCH(at)      (((at)-1)/LAST_RUN + 1)
#define RUN(at)        (((at)-1)%LAST_RUN + 1)
#define CELL(at,s)     (((at)-1)*SLOTS + (s))
#define CELLS          ((AT_SIZE-1)*SLOTS)
#define BRANCH(at,s,m) (CELL(at,s)*MANAGERS + (m)-FIRST)
#define BRANCHES       (CELLS*MANAGERS)
#define PLANS          ((LAST_RUN+1)*MANAGERS*SLOTS)
#define WRITER(at,t)   ((at)*2 + (t))
#define WHERE(at,s)    RUN(at), BATCH(at), s          /* for printf */
#define LAST_TRY(run,s) ((s) == 0 && MAY_RETRY(run) -> TRIES-1 : 0)

/* Which rows a slot of an attempt holds: Spark was seen to swap partitions between slots in a replay. */
bit swapped[AT_SIZE];
#if SLOTS == 1
#define ROW(at,s) 0
#else
#define ROW(at,s) ((s) ^ swapped[at])
#endif
#ifdef EQUAL_FINGERPRINTS         /* both slots of a batch hold equal rows */
#define FINGERPRINT(row) 0
#define SLOTS_WITH(f)    (SLOTS*(1-(f)))
#else
#define FINGERPRINT(row) (row)
#define SLOTS_WITH(f)    1
#endif
#define F(at,s) FINGERPRINT(ROW(at,s))

/* ------------------------------------------------------------------------------------------------------ smaller searches */

#ifdef COARSE_TASKS               /* a task writes, prepares and answers in one step */
#define IN_ONE_STEP atomic
#else
#define IN_ONE_STEP
#endif

#ifdef UNASKED_ABORTS             /* at most so many timeouts and heuristic rollbacks */
byte unasked_aborts;
#define MAY_ABORT (unasked_aborts < UNASKED_ABORTS)
#define COUNT_ABORT unasked_aborts++
#else
#define MAY_ABORT true
#define COUNT_ABORT skip
#endif

#ifdef ONLY_RETRIED               /* only this run starts second tries */
#define MAY_RETRY(run) ((run) == ONLY_RETRIED)
#else
#define MAY_RETRY(run) true
#endif

#ifdef ONLY_OVERTAKEN             /* only this run may be overtaken before its driver has come to its end; 0 = none */
byte ended;
#define MAY_OVERTAKE(run) ((run) == 0 || (run) == ONLY_OVERTAKEN || ended == (run))
#else
#define MAY_OVERTAKE(run) true
#endif

/* -DCALM: nothing disturbs a batch after its check: no timeout comes, no zombie moves until the batch is completed, and of two
   tries Spark takes the answer of the last one. Without it Spark takes the first answer, which is worse than the real Spark. */
bit checked;
#ifdef CALM
#define CALM_NOW true
#define IS_AWAKE(at,s) (message[CELL(at,s)] == 0 || COMPLETED(RUN(at)) >= BATCH(at))
#define IS_HEARD(at,s,t) (message[CELL(at,s)] == 0 && started[CELL(at,s)] == 1 + (t))
#else
#define CALM_NOW false
#define IS_AWAKE(at,s) true
#define IS_HEARD(at,s,t) (message[CELL(at,s)] == 0)
#endif
