/* Kafka as a resource manager (resource_managers/kafka/resource_manager.py). A slot has two transactional ids and uses them in turn. The
   broker aborts what stays open past its timeout. The marker is an offset committed inside the transaction: one per slot,
   the last one wins. A writer stands for one producer id and epoch: orders name it, so they never hit another's. */

#ifdef NO_RULE_TWO_IDS
#define IDS_OF_SLOT    1
#else
#define IDS_OF_SLOT    2
#endif
#define IDS            (PREFIXES*SLOTS*IDS_OF_SLOT)
#define SLOT_ID(at,s)  ((PREFIX(RUN(at))*SLOTS + (s))*IDS_OF_SLOT)
#define ID(at,s)       (SLOT_ID(at,s) + BATCH(at)%IDS_OF_SLOT)
#define OTHER_ID(at,s) (SLOT_ID(at,s) + (BATCH(at)+1)%IDS_OF_SLOT)
#define SLOT_OF_ID(i)  (((i)/IDS_OF_SLOT)%SLOTS)

byte holder[IDS];                 /* the writer that took the id last; 0 = none yet */
byte state[IDS];                  /* of its transaction: OPEN, COMMITTED, ABORTED; 0 = nothing written yet */
bit  pending[IDS];                /* the open transaction holds a marker */
byte marker[PREFIXES*LOGS*SLOTS]; /* the committed marker: (batch, attempt); 0 = none */
#define MARKER(at,s) marker[(PREFIX(RUN(at))*LOGS + LOG(RUN(at)))*SLOTS + (s)]

#define HOLDS_OPEN(i,w)     (holder[i] == (w) && state[i] == OPEN)
#define PENDING(i,at)       (state[i] == OPEN && pending[i] && LOG(RUN(holder[i]/2)) == LOG(RUN(at)))
#define UNSTABLE(at,s)      (PENDING(ID(at,s),at) || PENDING(OTHER_ID(at,s),at))
#define IS_OWN_MARKER(at,s) (LIFE(RUN(MARKER(at,s))) == LIFE(RUN(at)))
#define MARKER_COVERS(at,s) (MARKER(at,s) >= (at) && IS_OWN_MARKER(at,s))
#ifdef NO_RULE_ZOMBIE_CHECK
#define IS_ZOMBIE(at,s) false
#else
#define IS_ZOMBIE(at,s) MARKER_COVERS(at,s)
#endif

#ifdef EXPIRY
#define HAS_EXPIRED expired
bit expired;                      /* seven days have passed (expiry.pml) */
bit aged[CELLS];                  /* this task had prepared before them */
#else
#define HAS_EXPIRED false
#endif

#ifdef END_MARKER_MISSING
/* The coordinator has aborted a transaction, and a partition has no end marker of it (KAFKA-20734). Its rows stay open there, and
   become visible with the next commit of the same producer id. */
byte unended[IDS];                /* the writer whose rows those are; 0 = none */
bit was_unended;                  /* it happens once */
#endif

inline kafka_abort_open(i) { state[i] = ABORTED; pending[i] = 0 }

/* EndTxn(abort) with the producer id and epoch of writer w. */
inline kafka_roll_back(i, w) {
  if
#ifdef NO_RULE_EXACT_ABORT
  :: state[i] == OPEN ->
#else
  :: HOLDS_OPEN(i, w) ->
#endif
     kafka_abort_open(i);
     printf("run %d batch %d slot %d: EndTxn(abort)\n", WHERE(holder[i]/2, SLOT_OF_ID(i)))
  :: else
  fi }

/* begin: take the id, which aborts what its earlier holder left open. Then read the marker. UNSTABLE says that some
   transaction of the slot is open: a task that knows that it is no zombie ends the slot's other one. */
inline kafka_begin(at, s, t) {
  d_step { IS_AWAKE(at,s) -> holder[ID(at,s)] = WRITER(at,t); state[ID(at,s)] = 0; pending[ID(at,s)] = 0;
    printf("run %d batch %d slot %d try %d: takes its transactional id\n", WHERE(at,s), t) };
  do
  :: d_step { !UNSTABLE(at,s) && !IS_ZOMBIE(at,s) -> skip }; break
  :: d_step { IS_ZOMBIE(at,s) -> failed = 1;
       printf("run %d batch %d slot %d try %d: sees that it is a zombie\n", WHERE(at,s), t) }; break
  :: d_step { UNSTABLE(at,s) && holder[ID(at,s)] != WRITER(at,t) -> failed = 1 }; break   /* fenced: waiting would not help */
#ifndef NO_RULE_END_OTHER_ID
#ifndef NO_RULE_OTHER_ID_FIRST      /* what was open before the marker was read: one of the next batch is opened behind a marker that says so */
  :: d_step { UNSTABLE(at,s) -> x = holder[OTHER_ID(at,s)] };
     if
     :: d_step { IS_ZOMBIE(at,s) -> x = 0 }
     :: d_step { !IS_ZOMBIE(at,s) -> skip }; d_step { kafka_roll_back(OTHER_ID(at,s), x); x = 0 }
     fi
#else
  :: d_step { UNSTABLE(at,s) && !IS_ZOMBIE(at,s) -> skip };
     d_step { IS_AWAKE(at,s) -> kafka_roll_back(OTHER_ID(at,s), holder[OTHER_ID(at,s)]) }
#endif
#endif
  od;
  skip;
#if defined(END_MARKER_MISSING) && !defined(NO_RULE_LOOK_FOR_END_MARKERS)      /* before the first row, for both ids */
  d_step { if :: !failed -> unended[ID(at,s)] = 0; unended[OTHER_ID(at,s)] = 0 :: else fi };
#endif
  skip }

inline kafka_write(at, s, t) {
  if
  :: holder[ID(at,s)] == WRITER(at,t) && state[ID(at,s)] == 0 -> state[ID(at,s)] = OPEN
  :: else -> failed = 1                                   /* fenced */
  fi }

/* The marker call succeeds only for the producer that holds the id, and only when every record was delivered. */
inline kafka_prepare(at, s, t) {
  if
  :: HOLDS_OPEN(ID(at,s), WRITER(at,t)) -> pending[ID(at,s)] = 1;
     printf("run %d batch %d slot %d try %d: prepared in Kafka, rows %d\n", WHERE(at,s), t, ROW(at,s))
  :: else -> failed = 1
  fi }

/* EndTxn(commit) with the producer id and epoch in the handle. */
inline kafka_commit(at, s, w) {
  if
  :: HOLDS_OPEN(ID(at,s), w) -> answer = COMMITTED
  :: holder[ID(at,s)] == w && state[ID(at,s)] == COMMITTED -> answer = COMMITTED     /* a retry is answered so, too */
  :: holder[ID(at,s)] == w && (state[ID(at,s)] == ABORTED || state[ID(at,s)] == 0) -> answer = LOST   /* InvalidTxnState */
  :: holder[ID(at,s)] != w -> answer = FENCED
  fi;
  printf("run %d batch %d slot %d: EndTxn(commit): %e\n", WHERE(at,s), answer);
  if
  :: HOLDS_OPEN(ID(at,s), w) ->
     state[ID(at,s)] = COMMITTED; pending[ID(at,s)] = 0;
#ifndef NO_RULE_MARKER_INSIDE
     MARKER(at,s) = at;                                   /* the marker becomes visible with the rows, by one commit */
#endif
#ifdef END_MARKER_MISSING
     if
     :: unended[ID(at,s)] != 0 ->
        printf("run %d batch %d slot %d: its aborted rows become visible, too\n", WHERE(unended[ID(at,s)]/2,s));
        becomes_visible((unended[ID(at,s)]/2), s, KAFKA);
        unended[ID(at,s)] = 0
     :: else
     fi;
#endif
     becomes_visible(at, s, KAFKA)
  :: else
  fi }

/* FENCED: another writer took the id, or it has expired; this transaction is over. How it ended, the marker tells. Where that may
   have expired, or a newer checkpoint id has written over it, there is no proof: UNKNOWN. */
inline kafka_judge(at, s) {
  if
  :: MARKER_COVERS(at,s) -> answer = COMMITTED
#ifndef NO_RULE_GONE_IS_UNKNOWN
#ifdef EXPIRY
  :: MARKER(at,s) == 0 && (holder[ID(at,s)] == 0 || aged[CELL(at,s)]) -> answer = UNKNOWN
#endif
#if CHANGED
  :: MARKER(at,s) != 0 && !IS_OWN_MARKER(at,s) && RUN(MARKER(at,s)) > RUN(at) -> answer = UNKNOWN
#endif
#endif
  :: else -> answer = LOST
  fi;
  printf("run %d batch %d slot %d: judged by its marker: %e\n", WHERE(at,s), answer) }
