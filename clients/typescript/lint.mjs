// node lint.mjs FILE checks an OpenAPI description with the rules of Redocly, whose
// library openapi-typescript needs anyway.
import { createConfig, formatProblems, lint } from '@redocly/openapi-core';

const config = await createConfig({
  extends: ['recommended-strict'],
  rules: {
    'no-invalid-media-type-examples': 'error',
    'no-invalid-schema-examples': 'error',
    'operation-description': 'error',
    'operation-singular-tag': 'error',
    'parameter-description': 'error',
    'tag-description': 'error',
  },
});
const problems = await lint({ ref: process.argv[2], config });
const totals = { errors: problems.length, warnings: 0, ignored: 0 };
formatProblems(problems, { totals, format: 'codeframe' });
process.exitCode = problems.length > 0 ? 1 : 0;
