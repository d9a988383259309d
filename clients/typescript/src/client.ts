import { keepAddresses, type UploadAddresses } from './addresses.js';
import type { Call } from './call.js';
import { connect, type AnyOptions, type ClientOptions } from './connection.js';
import { followRanking, type Live, type LiveOptions } from './live.js';
import { keepUploads, type UploadOptions, type Uploads } from './uploads.js';

export interface Client {
  /**
   * call makes a call of the API, such as call('GET', '/v1/boards/{board}/friends',
   * {path: {board: 'steps'}}). It throws a StepboardError, of status 0 if the signal aborts.
   */
  call: Call;
  /** live follows the ranking among friends, or of a group, until it is stopped. */
  live(options: LiveOptions): Live;
  /** uploads sends totals, and keeps them until the service has them. */
  uploads(options: UploadOptions): Uploads;
  /** uploadAddresses makes, lists, changes and revokes the addresses of the user's phones. */
  readonly uploadAddresses: UploadAddresses;
}

/** createClient returns a client of the service for one user. */
export function createClient(options: ClientOptions): Client {
  const connection = connect(options);
  const call = ((method: string, path: string, given: AnyOptions = {}) =>
    connection.json(method, path, given)) as Call;
  return {
    call,
    live: (given) => followRanking(connection, given),
    uploads: (given) => keepUploads(connection, given),
    uploadAddresses: keepAddresses(call, options.baseUrl),
  };
}
