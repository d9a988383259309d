-- People of WeChat's mini programs. Both tables are new; nothing waits.

-- +goose Up
-- +goose StatementBegin

-- Who a person in a mini program is. unionid is empty without an account of the open platform. session_key is
-- encrypted as package services/operations/wechat says; failures is how many documents it could not decrypt.
CREATE TABLE wechat_users (
    appid       text COLLATE "C" NOT NULL,
    openid      text COLLATE "C" NOT NULL,
    unionid     text COLLATE "C" NOT NULL,
    user_id     bigint           NOT NULL,
    session_key bytea            NOT NULL,
    failures    integer          NOT NULL CHECK (failures >= 0),
    created_at  timestamptz      NOT NULL,
    PRIMARY KEY (appid, openid)
);
CREATE INDEX wechat_users_user ON wechat_users (user_id);
CREATE INDEX wechat_users_union ON wechat_users (unionid) WHERE unionid <> '';

-- Keyed hashes of the openids and the unionid of users who were erased, by which what others have decided about
-- them is found when they return. They stay as long as id_hash in erasures.
CREATE TABLE wechat_erased (
    id_hash bytea  NOT NULL,
    row_id  bigint NOT NULL,
    PRIMARY KEY (id_hash, row_id)
);
CREATE INDEX wechat_erased_row ON wechat_erased (row_id);
-- +goose StatementEnd
