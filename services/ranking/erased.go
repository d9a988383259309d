package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
)

// Lists of friends and members, which may be copies, name an erased user for a while after
// the erasure. These leave them out, as soon as this process has learned of it.

// existingFriends are friends who were not erased.
type existingFriends struct {
	Friends
	erased func(models.RowID) bool
}

// IDs is part of Friends.
func (f existingFriends) IDs(ctx context.Context, user models.RowID) ([]models.RowID, error) {
	ids, err := f.Friends.IDs(ctx, user)
	return slices.DeleteFunc(ids, f.erased), err
}

// Circle is part of Friends.
func (f existingFriends) Circle(ctx context.Context, user models.RowID) ([]models.RowID, time.Time, error) {
	ids, asOf, err := f.Friends.Circle(ctx, user)
	return slices.DeleteFunc(ids, f.erased), asOf, err
}

// Friendships is part of Friends.
func (f existingFriends) Friendships(ctx context.Context, user models.RowID) ([]models.Friendship, error) {
	friendships, err := f.Friends.Friendships(ctx, user)
	return slices.DeleteFunc(friendships, func(other models.Friendship) bool { return f.erased(other.FriendID) }), err
}

// existingMembers are members of groups who were not erased.
type existingMembers struct {
	Groups
	erased func(models.RowID) bool
}

// IDs is part of Groups.
func (g existingMembers) IDs(ctx context.Context, group models.GroupID, viewer models.RowID) ([]models.RowID, error) {
	ids, err := g.Groups.IDs(ctx, group, viewer)
	return slices.DeleteFunc(ids, g.erased), err
}

// Circle is part of Groups.
func (g existingMembers) Circle(
	ctx context.Context, group models.GroupID, viewer models.RowID,
) ([]models.RowID, time.Time, error) {
	ids, asOf, err := g.Groups.Circle(ctx, group, viewer)
	return slices.DeleteFunc(ids, g.erased), asOf, err
}
