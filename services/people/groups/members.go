package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stepboard/internal/codes"
	"stepboard/models"
)

// Invitation is what an invite code is for.
type Invitation struct {
	GroupID models.GroupID `gorm:"column:external_id"`
	Name    string
	Members int
	// Member reports whether the user who asks is one.
	Member bool
	// OwnerID, Nickname and AvatarURL are the owner's.
	OwnerID             models.UserID `gorm:"column:owner"`
	Nickname, AvatarURL string
}

// Invitation returns what an invite code is for, and changes nothing. Errors as in Join. Two queries.
func (s *Service) Invitation(ctx context.Context, user models.UserID, code string) (Invitation, error) {
	code, err := codes.Try(ctx, s.joins, user, code)
	if err != nil {
		return Invitation{}, err
	}
	row, err := s.directory.FindOne(ctx, user)
	if err != nil {
		return Invitation{}, err
	}
	found, err := s.store.invitation(ctx, row, code)
	if err != nil {
		return Invitation{}, models.Unavailable("look up invite code", err)
	}
	if len(found) == 0 {
		return Invitation{}, codes.ErrNoCode
	}
	return found[0], nil
}

// Invited is a group that somebody who has not signed in was invited to.
type Invited struct {
	Row   models.GroupRow
	Name  string
	Owner *models.RowID
	// names has the names of its members, as models.NameKey.
	names []string
}

// ByCode returns the group that a code, as codes.Parse returns it, invites to, or codes.ErrNoCode. Two queries.
// CodeUnavailable.
func (s *Service) ByCode(ctx context.Context, code string) (Invited, error) {
	found, err := s.store.byCode(ctx, code)
	if errors.Is(err, errNotStored) {
		return Invited{}, codes.ErrNoCode
	}
	if err != nil {
		return Invited{}, models.Unavailable("look up invite code", err)
	}
	invited := Invited{Row: found.Row, Name: found.Name, Owner: found.OwnerID}
	err = s.store.db.WithContext(ctx).Raw(`SELECT u.name_key FROM group_members m JOIN users u ON u.user_id = m.user_id
		WHERE m.group_id = ?`, found.Row).Scan(&invited.names).Error
	return invited, models.Public("look up invite code", err)
}

// Admits returns an error unless somebody new with a nickname may join now: CodeGroupFull, or CodeNicknameTaken if a
// member has the name, unless anyway. It never does for the zero value.
func (i Invited) Admits(nickname string, anyway bool) error {
	switch {
	case len(i.names) >= models.MaxGroupMembers:
		return errFull
	case !anyway && slices.Contains(i.names, models.NameKey(nickname)):
		return models.Errorf(models.CodeNicknameTaken, "somebody in this group has the name already: if that is you, type a code from your other device")
	default:
		return nil
	}
}

// Row returns the number of a group. CodeNotFound if there is none, CodeUnavailable. One query.
func (s *Service) Row(ctx context.Context, id models.GroupID) (models.GroupRow, error) {
	group, err := take(s.store.db.WithContext(ctx).Where("external_id = ?", id))
	if errors.Is(err, errNotStored) {
		return 0, models.NoGroup(id)
	}
	return group.Row, models.Public("look up group", err)
}

// Admit makes a user a member of a group without an invitation. A member stays one. CodeNotFound if the group has ended,
// CodeGroupFull and CodeGroupLimit as in Join.
func (s *Service) Admit(ctx context.Context, group models.GroupRow, user models.RowID) error {
	return s.change(ctx, func(t *tx) error { return t.join(group, nil, user) })
}

// RenewAgain renews the invitations that are revoked, in a database that was restored. It reads all codes.
func (s *Service) RenewAgain(ctx context.Context, isRevoked func(hash []byte) bool) error {
	var list []models.Group
	if err := s.store.db.WithContext(ctx).Select("group_id", "invite_code").Find(&list, "invite_code IS NOT NULL").Error; err != nil {
		return fmt.Errorf("read invitations: %w", err)
	}
	for _, group := range list {
		if !isRevoked(codes.HashOf(*group.InviteCode)) {
			continue
		}
		if err := s.change(ctx, func(t *tx) error { return t.set(group.Row, map[string]any{"invite_code": codes.New()}) }); err != nil {
			return err
		}
	}
	return nil
}

// Join makes a user a member of the group with an invite code, in capital or small
// letters, with or without spaces around it. A member stays one. CodeNotFound if no group has
// the code, CodeGroupFull and CodeGroupLimit if the group or the user has reached a limit,
// CodeRateLimited if the user has tried too many codes.
func (s *Service) Join(ctx context.Context, user models.UserID, code string) (Group, error) {
	code, err := codes.Try(ctx, s.joins, user, code)
	if err != nil {
		return Group{}, err
	}
	found, err := s.store.byCode(ctx, code)
	if errors.Is(err, errNotStored) {
		return Group{}, codes.ErrNoCode
	}
	if err != nil {
		return Group{}, models.Unavailable("look up invite code", err)
	}
	rows, err := s.directory.Ensure(ctx, user)
	if err != nil {
		return Group{}, err
	}
	err = s.change(ctx, func(t *tx) error { return t.join(found.Row, &code, rows[0]) })
	if err != nil {
		return Group{}, err
	}
	return s.get(ctx, rows[0], found.ID)
}

// join adds a user to the group, if that still has the code, unless it is nil.
func (t *tx) join(group models.GroupRow, code *string, user models.RowID) error {
	if err := t.lockUsers([]models.RowID{user}); err != nil {
		return err
	}
	locked, err := t.lock("group_id = ?", group)
	if errors.Is(err, errNotStored) || err == nil && code != nil && (locked.InviteCode == nil || *locked.InviteCode != *code) {
		return codes.ErrNoCode
	}
	if err != nil {
		return err
	}
	members, err := t.members(group)
	if err != nil {
		return err
	}
	t.changed = append(t.changed, group)
	if slices.Contains(members, user) {
		return nil
	}
	if len(members) >= models.MaxGroupMembers {
		return errFull
	}
	if err := t.checkGroups([]models.RowID{user}); err != nil {
		return err
	}
	if err := t.add(group, []models.RowID{user}); err != nil {
		return err
	}
	return t.teams.Changed(t.db, group, nil, []models.RowID{user}, true)
}

var errFull = models.Errorf(models.CodeGroupFull, "a group has at most %d members", models.MaxGroupMembers)

// Remove removes a member from a group: a user who leaves, or whom the owner removes. If
// the owner leaves, the member who joined first becomes the owner; a group without members
// ends. Whom the owner removes can't come back by the old invite code: the group gets a
// new one. If the member is not in the group, nothing changes. CodeNotFound if the user
// removes somebody else and is not a member, CodeForbidden if the user is not the owner.
func (s *Service) Remove(ctx context.Context, user models.UserID, id models.GroupID, member models.UserID) error {
	rows, err := s.directory.Find(ctx, user, member)
	if err != nil {
		return err
	}
	own, other := rows[0], rows[1]
	return s.change(ctx, func(t *tx) error {
		if err := t.lockUsers(ascending(own, other)); err != nil {
			return err
		}
		if user == member {
			return t.leave(id, own)
		}
		group, err := t.owned(id, own)
		if err != nil || other == 0 {
			return err
		}
		removed, err := t.remove(group.Row, other)
		if err != nil || !removed {
			return err
		}
		if err := t.teams.Changed(t.db, group.Row, []models.RowID{other}, nil, false); err != nil {
			return err
		}
		return t.renew(group.Row)
	})
}

// leave removes a user from a group, if the user is in it.
func (t *tx) leave(id models.GroupID, user models.RowID) error {
	group, err := t.lock("external_id = ?", id)
	if errors.Is(err, errNotStored) {
		return nil
	}
	if err != nil {
		return err
	}
	if removed, err := t.remove(group.Row, user); err != nil || !removed {
		return err
	}
	return t.succeed(group, user)
}

// succeed makes the member who joined first the owner of a group, if that was the user,
// who has left. A group without members ends.
func (t *tx) succeed(group models.Group, user models.RowID) error {
	next, err := t.first(group.Row)
	if err != nil {
		return err
	}
	if next == 0 {
		return t.delete(group.Row)
	}
	if group.OwnerID != nil && *group.OwnerID == user {
		if err := t.set(group.Row, map[string]any{"owner_id": next}); err != nil {
			return err
		}
	}
	return t.teams.Changed(t.db, group.Row, []models.RowID{user}, nil, false)
}

// Replacement is the list of members that a backend sets.
type Replacement struct {
	// Members are distinct.
	Members []models.UserID
	// Name is the name of the group; nil leaves it as it is.
	Name *string
}

// Replace makes the given users the only members of a group without an owner, which is
// created if it does not exist. Users that do not exist are created. Without members the
// group ends. CodeForbidden if the group belongs to a user, CodeGroupFull and
// CodeGroupLimit if there are too many members or one of them is in too many groups; then
// nothing changes.
func (s *Service) Replace(ctx context.Context, id models.GroupID, r Replacement) error {
	if len(r.Members) > models.MaxGroupMembers {
		return errFull
	}
	if r.Name != nil {
		name, err := models.NormalizeName("body.name", *r.Name)
		if err != nil {
			return err
		}
		r.Name = &name
	}
	rows, err := s.directory.Ensure(ctx, r.Members...)
	if err != nil {
		return err
	}
	return s.change(ctx, func(t *tx) error { return t.replace(id, ascending(rows...), r.Name) })
}

// replace sets the members, who are ascending, and the name unless it is nil.
func (t *tx) replace(id models.GroupID, wanted []models.RowID, name *string) error {
	if err := t.lockUsers(wanted); err != nil {
		return err
	}
	group, err := t.ensure(id)
	if err != nil {
		return err
	}
	if group.OwnerID != nil {
		return models.Errorf(models.CodeForbidden, "the group %s belongs to a user, who decides about its members", id)
	}
	had, err := t.members(group.Row)
	if err != nil {
		return err
	}
	t.changed = append(t.changed, group.Row)
	if len(wanted) == 0 {
		return t.delete(group.Row)
	}
	gained, lost := models.RowsWithout(wanted, had), models.RowsWithout(had, wanted)
	if err := t.checkGroups(gained); err != nil {
		return err
	}
	for _, user := range lost {
		if _, err := t.remove(group.Row, user); err != nil {
			return err
		}
	}
	if name != nil {
		if err := t.set(group.Row, map[string]any{"name": *name}); err != nil {
			return err
		}
	}
	if err := t.add(group.Row, gained); err != nil {
		return err
	}
	return t.teams.Changed(t.db, group.Row, lost, gained, false)
}
