/* A database as a resource manager (resource_managers/database_*.py): XA, or PREPARE TRANSACTION. A branch has an id of its
   own per task attempt, and no timeout: prepared, it survives everything and keeps its locks. A branch that is not prepared
   yet ends with its connection. The marker is a row with the key (batch, attempt, slot), written inside the branch. */

#define TXN(at,s,t)    (CELL(at,s)*TRIES + (t))
#define TXNS           (CELLS*TRIES)
#define AT_OF_TXN(i)   ((i)/(SLOTS*TRIES) + 1)
#define SLOT_OF_TXN(i) (((i)/TRIES)%SLOTS)
#define TRY_OF_TXN(i)  ((i)%TRIES)

byte branch[TXNS];                /* ACTIVE, PREPARED, COMMITTING, COMMITTED, ABORTED; 0 = not begun */
byte marker_row[CELLS];           /* COMMITTED or TOMBSTONE; 0 = none */

#ifdef NO_RULE_ATTEMPT_IN_KEY
#define KEY(at,s) CELL(AT(BATCH(at),1),s)
#else
#define KEY(at,s) CELL(at,s)
#endif

#define HOLDS_LOCKS(i) (branch[i] == ACTIVE || branch[i] == PREPARED || branch[i] == COMMITTING)
#define HOLDS_KEY(i)   (branch[i] == PREPARED || branch[i] == COMMITTING)
#if TRIES > 1
#define KEY_LOCKED(at,s) (HOLDS_KEY(TXN(at,s,0)) || HOLDS_KEY(TXN(at,s,1)))
#else
#define KEY_LOCKED(at,s) HOLDS_KEY(TXN(at,s,0))
#endif

inline database_roll_back(i) {
  if
  :: branch[i] == PREPARED -> branch[i] = ABORTED; 
     printf("run %d batch %d slot %d: XA ROLLBACK\n", WHERE(AT_OF_TXN(i), SLOT_OF_TXN(i)))
  :: else
  fi }

/* begin: refuse when the slot has a marker at this (batch, attempt) or beyond; then roll back what no decision can list any
   more: branches of older attempts, and of this attempt those of this slot. Their locks would block this writer. */
inline database_begin(at, s, t) {
#ifndef NO_RULE_ZOMBIE_CHECK
  d_step {
    for (x : at .. AT_SIZE-1) { if :: marker_row[KEY(x,s)] != 0 -> failed = 1 :: else fi };
    x = 0 };
#endif
#ifndef NO_RULE_ORPHANS_IN_BEGIN
  d_step {
    IS_AWAKE(at,s) ->
    for (x : 0 .. TXNS-1) {
      if
      :: !failed && RUN(AT_OF_TXN(x)) < RUN(at) -> database_roll_back(x)
      :: !failed && RUN(AT_OF_TXN(x)) == RUN(at) && AT_OF_TXN(x) <= at && SLOT_OF_TXN(x) == s -> database_roll_back(x)
      :: else
      fi };
    x = 0 };
#endif
  printf("run %d batch %d slot %d try %d: begins in the database\n", WHERE(at,s), t) }

/* A row that another branch wrote is locked until that one ends; lock_timeout turns waiting into failure. */
inline database_write(at, s, t) {
  for (x : 0 .. TXNS-1) {
    if
    :: HOLDS_LOCKS(x) && ROW(AT_OF_TXN(x), SLOT_OF_TXN(x)) == ROW(at,s) -> failed = 1
    :: else
    fi };
  x = 0;
  if :: !failed -> branch[TXN(at,s,t)] = ACTIVE :: else fi }

/* Insert the marker row, prepare, close the connection. */
inline database_prepare(at, s, t) {
  if
  :: branch[TXN(at,s,t)] == ACTIVE && marker_row[KEY(at,s)] == 0 && !KEY_LOCKED(at,s) -> branch[TXN(at,s,t)] = PREPARED;
     printf("run %d batch %d slot %d try %d: prepared in the database, rows %d\n", WHERE(at,s), t, ROW(at,s))
  :: else -> failed = 1
  fi }

/* What was undone by its own task, or by its connection's end. */
inline database_undo(i) {
  if
  :: branch[i] == ACTIVE || branch[i] == PREPARED -> branch[i] = ABORTED
  :: else
  fi }

/* XA COMMIT takes a moment, in which the branch is not listed any more and its rows are not visible yet; the server ends
   it whatever becomes of the client. NO_SUCH_BRANCH (XAER_NOTA) is the answer to everybody else: it says neither committed
   nor rolled back. */
inline database_commit(at, s, i) {
  if
  :: d_step { branch[i] == PREPARED -> branch[i] = COMMITTING;
       printf("run %d batch %d slot %d: XA COMMIT begins\n", WHERE(at,s)) };
     if
     :: quiet -> d_step { database_end_commit(i) }
     :: branch[i] == COMMITTED
     fi;
     answer = COMMITTED
  :: d_step { branch[i] != PREPARED -> answer = NO_SUCH_BRANCH;
       printf("run %d batch %d slot %d: XA COMMIT: %e\n", WHERE(at,s), answer) }
  fi }

inline database_end_commit(i) {
  branch[i] = COMMITTED;
#ifndef NO_RULE_MARKER_INSIDE
  marker_row[KEY(AT_OF_TXN(i),SLOT_OF_TXN(i))] = COMMITTED;
#endif
  printf("run %d batch %d slot %d: committed in the database\n", WHERE(AT_OF_TXN(i), SLOT_OF_TXN(i)));
  becomes_visible(AT_OF_TXN(i), SLOT_OF_TXN(i), DATABASE) }

/* A committed marker row proves the commit. Else it is lost only when a tombstone could be inserted under the marker's key:
   that waits for the writer of the key, and no other writer can write it afterwards. Other tries of the same task may hold the
   key, prepared; no decision lists them. */
inline database_judge(at, s, i) {
  if
  :: d_step { marker_row[KEY(at,s)] == COMMITTED -> answer = COMMITTED }
  :: d_step { marker_row[KEY(at,s)] == TOMBSTONE -> answer = LOST }
  :: d_step { marker_row[KEY(at,s)] == 0 -> skip };
#if TRIES > 1 && !defined(NO_RULE_RIVALS)
     d_step { database_roll_back(TXN(at,s,1-TRY_OF_TXN(i))) };
#endif
     d_step {
       if
#ifndef NO_RULE_TOMBSTONE
       :: marker_row[KEY(at,s)] == COMMITTED -> answer = COMMITTED
       :: marker_row[KEY(at,s)] == 0 && KEY_LOCKED(at,s) -> answer = RETRY_LATER
       :: marker_row[KEY(at,s)] == 0 && !KEY_LOCKED(at,s) -> marker_row[KEY(at,s)] = TOMBSTONE; answer = LOST
#endif
       :: else -> answer = LOST
       fi }
  fi;
  printf("run %d batch %d slot %d: judged by its marker row: %e\n", WHERE(at,s), answer) }
