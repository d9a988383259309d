-- One table for people of WeChat's mini programs and of OpenID Connect providers, and sessions that end at a time.
-- wechat_users and wechat_erased have other names now; views keep the old ones for a version that runs beside this one,
-- which reads and writes through them. All tables are locked for a moment.

-- +goose Up
-- +goose StatementBegin

-- Who somebody is elsewhere: the subject at an OpenID Connect provider, by the provider's address, or the openid in a
-- mini program of WeChat, by its appid. unionid, session_key and failures are WeChat's, otherwise empty and 0.
ALTER TABLE wechat_users RENAME TO identities;
ALTER TABLE identities RENAME COLUMN appid TO issuer;
ALTER TABLE identities RENAME COLUMN openid TO subject;
ALTER INDEX wechat_users_pkey RENAME TO identities_pkey;
ALTER INDEX wechat_users_user RENAME TO identities_user;
ALTER INDEX wechat_users_union RENAME TO identities_union;
CREATE VIEW wechat_users AS
    SELECT issuer AS appid, subject AS openid, unionid, user_id, session_key, failures, created_at FROM identities;

-- Keyed hashes of the identities of users who were erased, as before.
ALTER TABLE wechat_erased RENAME TO identities_erased;
ALTER INDEX wechat_erased_pkey RENAME TO identities_erased_pkey;
ALTER INDEX wechat_erased_row RENAME TO identities_erased_row;
CREATE VIEW wechat_erased AS SELECT id_hash, row_id FROM identities_erased;

-- When a session ends however often it is used; null for never. Those that a provider has opened have such an end.
ALTER TABLE sessions ADD COLUMN ends_at timestamptz;
-- +goose StatementEnd
