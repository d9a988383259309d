package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/phones"
)

// boards holds the services of boards, and of what is written to them.
type boards struct {
	Catalog     *catalog.Catalog
	Entries     board.Entries
	Archive     *archive.Service
	Corrections *corrections.Service
	Ledger      *ledger.Service
	Reconciler  *ledger.Reconciler
	Ingest      *ingest.Service
	DeadLetters *ingest.DeadLetters
	Replayer    *ingest.Replayer // nil without a queue
	Holds       *holds.Service
	Phones      *phones.Service

	rules      *corrections.Rules
	decisions  *corrections.Store
	increments *ledger.Store
	writer     *ingest.Writer   // of uploads
	queue      ingest.Queue     // nil in direct mode
	consumer   *ingest.Consumer // nil without a queue or the role
}

// newBoards constructs the services of boards, stores the boards' definitions and reads the corrections. After an
// error the caller closes the queue.
func newBoards(ctx context.Context, o Options, p platform, known *catalog.Catalog, who people) (boards, error) {
	w := boards{Catalog: known, rules: corrections.NewRules(who.Directory.Erased())}
	w.Entries = p.backing.entries(w.rules, known.Buckets)
	w.Archive = archive.New(archive.NewStore(archive.StoreOptions{
		Runs: o.Stores.Archive.Gorm, Pool: o.Stores.Archive.Pool, Reads: o.Stores.Gorm, Reports: o.Stores.Reports.Gorm,
		Outbox: p.outbox, Random: o.Random,
	}), p.backing.source(), p.leases, o.Clock, o.Log)
	w.increments = ledger.NewStore(o.Stores.Jobs.Gorm, o.Stores.Increments.Gorm, o.Stores.Increments.Pool)
	w.Reconciler = ledger.NewReconciler(ledger.ReconcilerOptions{
		Store: w.increments, Totals: known.Buckets, Entries: w.Entries, Archived: w.Archive.Complete,
		Clock: o.Clock, Log: o.Log, Rewind: rewind,
	})
	w.decisions = corrections.NewStore(o.Stores.Gorm, o.Stores.Jobs.Gorm, o.Random)
	w.Corrections = corrections.New(corrections.Options{
		Store: w.decisions, Rules: w.rules, Catalog: known, Entries: w.Entries, Archive: w.Archive,
		Ledger: w.Reconciler, Directory: who.Directory, Clock: o.Clock, Log: o.Log,
	})
	w.Ledger = ledger.New(w.increments, guardedTotals{known.Buckets, p.clock}, who.Directory, w.Entries, o.Clock, o.Log)
	p.registry.MustRegister(newArchiveCollector(w.Archive), newCorrectionsCollector(w.Corrections), newLedgerCollector(w.Ledger))
	if err := defineBoards(ctx, o, known); err != nil {
		return w, err
	}
	if err := w.Corrections.Refresh(ctx); err != nil {
		return w, err
	}
	return w, w.buildIngest(ctx, o, p, who)
}

// defineBoards stores the definitions of the settings' boards, and logs which stored boards
// the settings no longer name.
func defineBoards(ctx context.Context, o Options, known *catalog.Catalog) error {
	define := known.Definitions.Define
	if o.KeepStoredBoards {
		define = known.Definitions.DefineMissing
	}
	if err := define(ctx, o.Config.BoardDefinitions()); err != nil {
		return err
	}
	switch {
	case len(o.Config.Boards) == 0 && o.Stores.Folder != nil:
		return keepBoards(ctx, o, known)
	case o.KeepStoredBoards:
		return nil
	default:
		return warnOfBoards(ctx, o.Config, o.Stores, o.Clock(), o.Log)
	}
}

// keepBoards leaves the boards of a data folder as they are stored, and defines one in a new folder.
func keepBoards(ctx context.Context, o Options, known *catalog.Catalog) error {
	if len(known.Definitions.Boards()) == 0 {
		o.Config.Boards = []config.Board{config.FolderBoard(machineZone())}
		if err := known.Definitions.DefineMissing(ctx, o.Config.BoardDefinitions()); err != nil {
			return err
		}
	}
	if o.KeepStoredBoards {
		return nil
	}
	var stored []models.Board
	for _, b := range known.Definitions.Boards() {
		stored = append(stored, b.Board)
		o.Log.Info("the settings have no boards: a board as it is stored", "board", b.Name, "time_zone", b.TimeZone, "global", b.Global)
	}
	return o.Config.WeChat.CheckBoards(stored)
}

// buildIngest constructs the services of uploads, which go to the boards directly
// or through the queue.
func (w *boards) buildIngest(ctx context.Context, o Options, p platform, who people) (err error) {
	if w.queue, err = newQueue(ctx, o, w.Catalog.Buckets.DaysHot(), p.backing.room()); err != nil {
		return err
	}
	targets := ingest.Targets{Buckets: w.Catalog.Buckets, Users: who.Directory}
	deadLetters := ingest.NewDeadLetterStore(o.Stores.Jobs.Gorm)
	w.DeadLetters = &ingest.DeadLetters{Store: deadLetters, Targets: targets, Entries: w.Entries, Records: who.Directory}
	w.writer = ingest.Direct(w.Entries, o.Traces.flushes)
	if w.queue != nil {
		w.writer = ingest.Queued(w.queue, o.Traces.flushes)
		w.Replayer = &ingest.Replayer{
			Queue: w.queue, Targets: targets, Entries: w.Entries, Clock: o.Machine, Log: o.Log, Rewind: o.Config.Ingest.Rewind,
		}
		p.registry.MustRegister(newQueueCollector(w.queue))
		if o.Roles.Consumer {
			w.consumer = ingest.NewConsumer(ingest.ConsumerOptions{
				Queue: w.queue, Targets: targets, Entries: w.Entries, DeadLetters: deadLetters, Clock: o.Clock, Log: o.Log,
				Interval: o.Config.Ingest.FlushInterval, Batch: o.Config.Ingest.BatchSize, Registry: p.registry,
			})
		}
	}
	held := holds.NewStore(o.Stores.Gorm, o.Stores.Jobs.Gorm)
	w.Ingest = ingest.New(w.Catalog, who.Directory, held, w.writer, o.Clock)
	w.Holds = holds.New(holds.Options{
		Store: held, Catalog: w.Catalog, Entries: w.Entries, Archive: w.Archive, Rules: w.rules, Directory: who.Directory,
		Write: w.writer.Raise, RetainMonths: o.Config.Archive.RetainMonths, Clock: o.Clock, Log: o.Log,
	})
	w.Phones = phones.New(phones.Options{
		Store: phones.NewStore(o.Stores.Gorm), Boards: w.Catalog.Definitions, Directory: who.Directory, Uploads: w.Ingest,
		ZoneOf: who.Sessions.TimeZone, Clock: o.Clock,
	})
	p.registerJobs(o, newHoldsCollector(w.Holds))
	return nil
}

func (w *boards) closeQueue() {
	if w.queue != nil {
		w.queue.Close()
	}
}

// newQueue returns the queue of the settings, or nil in direct mode. daysHot is the
// longest time that a day stays in Redis, and room is the Room of a stream.
func newQueue(ctx context.Context, options Options, daysHot int, room func(context.Context) error) (ingest.Queue, error) {
	cfg, log := options.Config, options.Log
	o := cfg.Ingest
	switch o.Mode {
	case "redis":
		server := cfg.Redis
		if ownStream(cfg) {
			server = o.Redis.Server()
		}
		rdb := options.Stores.Queue
		if rdb == nil {
			var err error
			if rdb, err = stores.OpenTracedRedis(server, options.Traces.Provider()); err != nil {
				return nil, fmt.Errorf("ingest.redis: %w", err)
			}
		}
		if err := checkRedis(ctx, rdb, log); err != nil {
			return nil, errors.Join(fmt.Errorf("ingest.redis: %w", err), rdb.Close())
		}
		return ingest.NewStream(rdb, keys.Builder{Prefix: cfg.Redis.KeyPrefix}, ingest.StreamOptions{
			MaxUpdates: o.Redis.MaxUpdates, Keep: o.Redis.Keep, ClaimAfter: o.Redis.ClaimAfter, Room: room, Clock: options.Machine,
		}), nil
	case "kafka":
		queue, err := ingest.NewKafka(ctx, ingest.KafkaOptions{
			Brokers: o.Kafka.Brokers, Topic: o.Kafka.Topic, Group: o.Kafka.Group, TLS: o.Kafka.TLS,
			SASL: o.Kafka.SASL, Username: o.Kafka.Username, Password: o.Kafka.Password,
			Retention: time.Duration(daysHot+2) * 24 * time.Hour, Log: log,
		})
		if err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		return queue, nil
	default:
		return nil, nil //nolint:nilnil // without a queue, updates go straight to the boards
	}
}

// ownStream reports whether the queue is a stream in a Redis of its own, not in
// that of the boards.
func ownStream(cfg config.Config) bool { return len(cfg.Ingest.Redis.Addrs) > 0 }
