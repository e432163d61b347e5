/* What names a run: its checkpoint directory, prefix, decision log and sink, and the checkpoint id that is kept in the directory
   (pipeline/recovery/run_start.py, pipeline/recovery/adoption.py). Without -DCHANGED all runs have the same ones.

   -DCHANGED: there are two pipelines. Run 1 is the first one's, run 2 the second one's, which has its own of what CHANGED
   names, and the rest in common with the first. A copy of the directory is made at any moment after run 1 has started. */

#if CHANGED
bit pipeline[LAST_RUN+1];                 /* whose run it is: 0 the first pipeline's, 1 the second one's */
#endif
#if CHANGED & 1
#define DIRECTORY(run) pipeline[run]
#define DIRECTORIES 2
bit copied;
#else
#define DIRECTORY(run) 0
#define DIRECTORIES 1
#define copied 1
#endif
#if CHANGED & 2
#define PREFIX(run) pipeline[run]
#define PREFIXES 2
#else
#define PREFIX(run) 0
#define PREFIXES 1
#endif
#if CHANGED & 4
#define LOG_OF(p) (p)
#define LOG(run) pipeline[run]
#define LOGS 2
#else
#define LOG_OF(p) 0
#define LOG(run) 0
#define LOGS 1
#endif
#if CHANGED & 8
#define SINK_OF(run) pipeline[run]
#define SINKS 2
#else
#define SINK_OF(run) 0
#define SINKS 1
#endif

/* What Spark keeps in a directory: its offset log and its commit log. */
#if CHANGED || defined(RESTORE)
byte planned[DIRECTORIES];                /* the last planned batch */
#define PLANNED(run) planned[DIRECTORY(run)]
#define TO_PLAN(b,a) PLANNED(a) = (PLANNED(a) < (b) -> (b) : PLANNED(a))
#else
#define PLANNED(run) 0
#define TO_PLAN(b,a) skip
#endif
byte completed[DIRECTORIES];              /* the last completed batch */
#define COMPLETED(run) completed[DIRECTORY(run)]
#ifdef RESTORE
#define IS_RESTORED restored
bit restored;                             /* the newest files are gone: an old backup was restored */
#else
#define IS_RESTORED false
#endif

#if CHANGED
/* What indoubt keeps there. A checkpoint id is called after the run that made it. */
byte life_in[DIRECTORIES] = 1;
bit owner[DIRECTORIES];                   /* whose prefix, log and sink stand beside it */
#define LIFE_IN(a) life_in[DIRECTORY(a)]
#if CHANGED == 1
#define IS_CHANGED(a) false
#else
#define IS_CHANGED(a) (owner[DIRECTORY(a)] != pipeline[a])
#endif

#define LIVES     (LAST_RUN+1)
#define LIFE(run) life[run]
byte life[LAST_RUN+1];                    /* the checkpoint id under which a run has started; 0 = it has not started yet */
bit adopting[LAST_RUN+1];                 /* in the directory's old log, under its old checkpoint id */
bit overtaken[LAST_RUN+1];                /* a successor has started since, in the same log */
bit is_over[LIVES];                       /* this checkpoint id was adopted: no run of it starts any more */

/* Rule 2: a successor is another run of the same prefix, or of the same checkpoint id. */
#define LOG_NOW(run) (adopting[run] -> LOG_OF(1-pipeline[run]) : LOG(run))
#ifdef NO_RULE_VOID_BY_LIFE               /* instead: only the prefix identifies a successor */
#define IS_SUCCESSOR(run,prefix,its_life) (!adopting[run] && PREFIX(run) == prefix)
#else
#define IS_SUCCESSOR(run,prefix,its_life) (life[run] == its_life || (!adopting[run] && PREFIX(run) == prefix))
#endif

inline append_run_started(a, log, its_life) {
  for (x : 1 .. LAST_RUN) {
    if
    :: x != a && life[x] != 0 && LOG_NOW(x) == log && IS_SUCCESSOR(x, PREFIX(a), its_life) -> overtaken[x] = 1
    :: else
    fi };
  x = 0;
  life[a] = its_life }

/* A directory that was used with another prefix, log or sink is adopted. It must be finished: no batch is planned and not
   completed, and the log of its checkpoint id knows of no later one. A copy for another sink is a fork: what its original goes on to
   write is nothing to it. */
#if (CHANGED & 9) == 9
#define IS_FORK true
#else
#define IS_FORK false
#endif
#ifdef NO_RULE_ADOPT_FINISHED
#define IS_UNFINISHED(a) false
#else
#define IS_UNFINISHED(a) (PLANNED(a) > COMPLETED(a))
#endif
#ifdef NO_RULE_ADOPT_NEWEST
#define IS_BEHIND(a) false
#else
#define IS_BEHIND(a) (!IS_FORK && last_decided[LIFE_IN(a)] > PLANNED(a))
#endif

inline look_before_adoption(a) {
  adopting[a] = 1;
  failed = IS_UNFINISHED(a) || IS_BEHIND(a) }

/* The start stands in the old log, under the old checkpoint id: from there on no older run decides anything. */
inline start_under_old_life(a) {
#ifdef NO_RULE_START_IN_OLD_LOG
  skip
#else
  if
  :: !failed && !IS_FORK -> append_run_started(a, LOG_OF(1-pipeline[a]), LIFE_IN(a)); printf("run %d starts to adopt\n", a)
  :: else
  fi
#endif
}

/* Look again, for what was decided before that record and for who started after it. Then the directory gets a checkpoint id of its own. */
inline adopt(a) {
  failed = failed || overtaken[a];
#ifndef NO_RULE_LOOK_AGAIN
  failed = failed || IS_UNFINISHED(a) || IS_BEHIND(a);
#endif
  adopting[a] = 0; overtaken[a] = 0; life[a] = 0;
  if
  :: !failed ->
#ifndef NO_RULE_ADOPTED_IS_OVER
     if :: !IS_FORK -> is_over[LIFE_IN(a)] = 1 :: else fi;
#endif
     owner[DIRECTORY(a)] = pipeline[a];
#ifndef NO_RULE_NEW_LIFE
     LIFE_IN(a) = a;
#endif
     printf("run %d has adopted the directory\n", a)
  :: else -> printf("run %d may not adopt the directory\n", a)
  fi }

#if CHANGED & 1
proctype Copy() provided (!quiet) {
  end_idle: d_step { newest_run > 0 && !copied ->
    copied = 1; life_in[1] = life_in[0]; owner[1] = owner[0]; planned[1] = planned[0]; completed[1] = completed[0];
    printf("the directory is copied, completed is batch %d\n", completed[0]) };
  end_copied: false
}
#endif
#else
#define LIVES     1
#define LIFE(run) 0
#endif
