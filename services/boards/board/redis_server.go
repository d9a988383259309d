package board

import (
	"context"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Server returns the address of the server that an update is written to: the
// master of its shard if Redis is a cluster, otherwise always "". It is "", too,
// if no server of the cluster responds. No I/O, except before the first command
// of a client.
func (s *Store) Server(ctx context.Context, r models.Raise) string {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	// The other keys of the shard are in the same slot.
	master, err := cluster.MasterForKey(ctx, s.keys.Board(r.Bucket, r.Bucket.Shard(r.User)))
	if err != nil {
		return ""
	}
	return master.Options().Addr
}
