/* What does not last: Kafka's markers and ids, the head of the decision log, a checkpoint directory's newest files. Each goes at
   any moment, also while runs and tasks are paused. */

#if defined(EXPIRY) && (SINK != 1 || defined(CALM))
#error "EXPIRY is for Kafka alone, without CALM"
#endif
#if CHANGED && (SINK != 1 || defined(CALM) || defined(HEAD_CUT) || defined(TRIM) || defined(RESTORE))
#error "CHANGED is for Kafka alone, without CALM, HEAD_CUT, TRIM and RESTORE"
#endif

#ifdef EXPIRY
/* Timeouts are shorter: nothing is open any more. Ids and markers have settings of their own, so either may go alone. */
inline seven_days_pass() {
  printf("seven days pass\n");
  expired = 1;
  for (x : 0 .. IDS-1) { if :: state[x] == OPEN -> kafka_abort_open(x) :: else fi };
  for (x : 0 .. CELLS-1) { aged[x] = message[x] != 0 };
  x = 0 }
inline markers_expire() { for (x : 0 .. PREFIXES*LOGS*SLOTS-1) { marker[x] = 0 }; x = 0 }
inline ids_expire() {                      /* the next writer gets a new producer id */
  for (x : 0 .. IDS-1) {
    holder[x] = 0; state[x] = 0;
#ifdef END_MARKER_MISSING
    unended[x] = 0;
#endif
  };
  x = 0 }

proctype SevenDays() provided (!quiet) {
  byte x;
  end_idle: if
  :: d_step { newest_run > 0 -> seven_days_pass(); markers_expire(); ids_expire() }
  :: d_step { newest_run > 0 -> seven_days_pass(); markers_expire() }
  :: d_step { newest_run > 0 -> seven_days_pass(); ids_expire() }
  fi;
  end_passed: false
}
#endif

#ifdef HEAD_CUT
/* A topic with a finite retention: one "run started" record after the other goes. */
proctype HeadCut() provided (!quiet) {
  end_idle: do
  :: d_step { cut_runs < newest_run -> cut_runs++; printf("the log loses the start of run %d\n", cut_runs) }
  od
}
#endif

#ifdef TRIM
bit trimmed;

/* A snapshot repeats what still matters, then everything before it is deleted. It has the newest run, and of the last decided
   batch and those after it every decision, with outcomes. */
proctype Trim() provided (!quiet) {
  byte x, y;
  end_idle: d_step { newest_run > 0 && !trimmed ->
    trimmed = 1; printf("the log is trimmed to a snapshot\n");
#ifdef NO_RULE_SNAPSHOT_HAS_RUNS
    cut_runs = newest_run;
#endif
    for (x : 1 .. AT_SIZE-1) {
      if
#ifndef NO_RULE_SNAPSHOT_HAS_DECISIONS
      :: BATCH(x) >= last_decided[0]
#endif
      :: else -> ruling[x] = 0
      fi;
#ifdef NO_RULE_SNAPSHOT_HAS_OUTCOMES
      for (y : BRANCH(x,0,FIRST) .. BRANCH(x,SLOTS-1,LAST)) { outcome[y] = 0 }
#endif
    };
    x = 0; y = 0 };
  end_trimmed: false
}
#endif

#ifdef RESTORE
/* The newest batch's files in offsets/ and commits/ are gone. */
proctype Restore() provided (!quiet) {
  end_idle: d_step { completed[0] > 0 && !restored ->
    restored = 1; completed[0]--; planned[0] = completed[0];
    printf("the directory is restored from a backup, completed is batch %d\n", completed[0]) };
  end_restored: false
}
#endif

#ifdef END_MARKER_MISSING
/* The coordinator completes an abort, and a partition does not hear of it. */
proctype MissingEndMarker(byte i) provided (!quiet) {
  end_idle: do
  :: d_step { state[i] == ABORTED && !was_unended -> was_unended = 1; unended[i] = holder[i];
       printf("run %d batch %d slot %d: aborted, and its end marker is missing\n", WHERE(holder[i]/2, SLOT_OF_ID(i))) }
  od
}
#endif
