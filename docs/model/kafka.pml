/* Kafka as a resource manager (resource_managers/kafka.py). A slot has two transactional ids and uses them in turn. The
   broker aborts what stays open past its timeout. The marker is an offset committed inside the transaction: one per slot,
   the last one wins. A writer stands for one producer id and epoch: orders name it, so they never hit another's. */

#ifdef NO_RULE_TWO_IDS
#define IDS           SLOTS
#define ID(at,s)      (s)
#define OTHER_ID(at,s) (s)
#define UNSTABLE(s)   PENDING(s)
#else
#define IDS           (SLOTS*2)
#define ID(at,s)      ((s)*2 + BATCH(at)%2)
#define OTHER_ID(at,s) ((s)*2 + (BATCH(at)+1)%2)
#define UNSTABLE(s)   (PENDING((s)*2) || PENDING((s)*2+1))
#endif
#define SLOT_OF_ID(i) ((i)/(IDS/SLOTS))

byte holder[IDS];                 /* the writer that took the id last; 0 = nobody yet */
byte state[IDS];                  /* of its transaction: OPEN, COMMITTED, ABORTED; 0 = nothing written yet */
bit  pending[IDS];                /* the open transaction holds a marker */
byte marker[SLOTS];               /* the committed marker: (batch, attempt) */

#define HOLDS_OPEN(i,w)     (holder[i] == (w) && state[i] == OPEN)
#define PENDING(i)          (state[i] == OPEN && pending[i])
#define MARKER_COVERS(s,at) (marker[s] >= (at))
#ifdef NO_RULE_ZOMBIE_CHECK
#define IS_ZOMBIE(s,at) false
#else
#define IS_ZOMBIE(s,at) MARKER_COVERS(s,at)
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
  :: d_step { !UNSTABLE(s) && !IS_ZOMBIE(s,at) -> skip }; break
  :: d_step { IS_ZOMBIE(s,at) -> failed = 1;
       printf("run %d batch %d slot %d try %d: sees that it is a zombie\n", WHERE(at,s), t) }; break
  :: d_step { UNSTABLE(s) && holder[ID(at,s)] != WRITER(at,t) -> failed = 1 }; break      /* fenced: waiting would not help */
#ifndef NO_RULE_END_OTHER_ID
#ifdef OTHER_ID_FIRST
  :: d_step { UNSTABLE(s) -> x = holder[OTHER_ID(at,s)] };
     if
     :: d_step { IS_ZOMBIE(s,at) -> x = 0 }
     :: d_step { !IS_ZOMBIE(s,at) -> skip }; d_step { kafka_roll_back(OTHER_ID(at,s), x); x = 0 }
     fi
#else
  :: d_step { UNSTABLE(s) && !IS_ZOMBIE(s,at) -> skip };
     d_step { IS_AWAKE(at,s) -> kafka_roll_back(OTHER_ID(at,s), holder[OTHER_ID(at,s)]) }
#endif
#endif
  od;
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
     marker[s] = at;                                      /* the marker becomes visible with the rows, by one commit */
#endif
     becomes_visible(at, s, KAFKA)
  :: else
  fi }

/* FENCED: another writer took the id, so this transaction is over. How it ended, the marker tells. */
inline kafka_judge(at, s) {
  answer = (MARKER_COVERS(s,at) -> COMMITTED : LOST);
  printf("run %d batch %d slot %d: judged by its marker: %e\n", WHERE(at,s), answer) }
